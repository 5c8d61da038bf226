// A headless Chromium out of Debian's packages, next to the private Swift toolchain: nothing is installed on the system. A browser that
// is there already is taken instead: GATED_DELTA_CHROMIUM, or one on PATH.
import { existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { which } from "../../swift/scripts/exec.mjs";
import { withLock } from "../../swift/scripts/lock.mjs";
import { Failure, say } from "../../swift/scripts/report.mjs";
import { aptRoot, fetchPackages, haveDebianTools, plan, unpack } from "../../swift/toolchain/debian.mjs";
import { cacheFolder } from "../../swift/toolchain/install.mjs";
import { mirror } from "../../swift/toolchain/mirror.mjs";

const suite = "bookworm";
const packages = ["chromium-headless-shell", "fonts-dejavu-core"];
const names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/** How to start a browser: its program, and the environment that it needs. */
export async function findChromium() {
  const named = process.env.GATED_DELTA_CHROMIUM ?? names.map((name) => which(name)).find((path) => path !== null);
  if (named !== undefined) return { program: named, env: process.env };
  const folder = join(cacheFolder(), `chromium-${suite}`);
  if (!existsSync(folder)) await withLock(join(cacheFolder(), ".lock-chromium"), "set-up of Chromium", () => make(folder));
  const machine = process.arch === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  const libraries = ["usr/lib", "lib"].flatMap((lib) => ["", "pulseaudio", "nss"].map((part) => join(folder, lib, machine, part)));
  return {
    program: join(folder, "usr/lib/chromium/chromium-headless-shell"),
    env: { ...process.env, LD_LIBRARY_PATH: libraries.filter(existsSync).join(":"), FONTCONFIG_PATH: join(folder, "etc/fonts"), FONTCONFIG_SYSROOT: folder },
  };
}

async function make(folder) {
  if (existsSync(folder)) return;
  const uri = mirror();
  if (!haveDebianTools() || uri === null) throw new Failure("no Chromium: install one, or name its program in GATED_DELTA_CHROMIUM, and run the same command again.");
  const downloads = `${folder}.downloads`;
  const staged = `${folder}.staged-${process.pid}`;
  const apt = aptRoot(downloads, suite, uri);
  // The C library stays the system's: a program can't have another one than its loader's.
  const files = (await plan(apt, packages)).filter(({ name }) => !name.startsWith("libc6_"));
  await fetchPackages(apt, packages, files, "Chromium");
  await unpack(apt, files, staged, "Chromium");
  renameSync(staged, folder);
  rmSync(downloads, { recursive: true, force: true });
  say("Chromium is ready");
}
