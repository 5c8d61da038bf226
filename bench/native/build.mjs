// Builds the probes into .build/bench, with the clang that came with the Swift toolchain.
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { run, tail } from "../../swift/scripts/exec.mjs";
import { Failure, say } from "../../swift/scripts/report.mjs";
import { readStamp, treeHash, writeStamp } from "../../swift/scripts/stamp.mjs";
import { layout } from "../../swift/toolchain/recipe.mjs";

/** A private toolchain's own configuration links for its own glibc; the probes are loaded into Bun, on the system's. */
function linkFlags(clang) {
  const prefix = join(dirname(clang), "../../../..");
  if (!dirname(clang).endsWith(join(layout.swift, "bin")) || !existsSync(join(prefix, layout.product))) return [];
  return [
    "--no-default-config",
    `--sysroot=${join(prefix, layout.sysroot)}`,
    "-fuse-ld=lld",
    `-L${join(prefix, layout.product)}`,
  ];
}

/** Builds the probe if it is missing or older than its sources. `compiler` is a clang, or the clang++ next to one. Returns a path. */
export async function buildProbe(root, compiler) {
  // As C++ it would be linked with the C++ library, which need not be there at run time.
  const clang = compiler.replace(/clang\+\+$/, "clang");
  const folder = join(root, ".build", "bench");
  const library = join(folder, process.platform === "darwin" ? "libprobe.dylib" : "libprobe.so");
  const stampFile = join(folder, "probe.json");
  const stamp = { sources: treeHash(root, ["bench/native"]), clang };
  if (existsSync(library) && JSON.stringify(readStamp(stampFile)) === JSON.stringify(stamp)) return library;
  mkdirSync(folder, { recursive: true });
  say("building the benchmarks' probes");
  // Whole or not at all: another run may be loading the old one.
  const fresh = `${library}.${process.pid}`;
  const flags = ["-x", "c", "-O3", "-std=gnu17", "-Wall", "-Wextra", "-shared", "-fPIC", "-fvisibility=hidden"];
  const { code, text } = await run(clang, [
    ...flags,
    ...linkFlags(clang),
    join(root, "bench/native/probe.c"),
    "-o",
    fresh,
    "-lpthread",
  ]);
  if (code !== 0) {
    process.stderr.write(`${tail(text)}\n`);
    throw new Failure("the benchmarks' probes could not be built: see the compiler's message above.");
  }
  renameSync(fresh, library);
  writeStamp(stampFile, stamp);
  return library;
}
