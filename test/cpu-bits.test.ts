// The CPU kernels with fused multiply-add sum in one order at every vector width: AVX2, AVX-512 and NEON give the same
// bits. NEON runs under Debian's qemu-user if that is installed, and directly on aarch64.
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder, folderText, object } from "./emulator/compile.ts";
import { clang } from "./emulator/toolchain.ts";
import { temporaryFolder } from "./setup/folder.ts";

const kernels = join(import.meta.dir, "../swift/Sources/CPUKernels");
const program = join(import.meta.dir, "native/cpu-bits.c");
const flags = ["-x", "c", "-std=c17", "-ffp-contract=off", "-fno-math-errno", `-I${join(kernels, "include")}`];
const freestanding = ["--no-default-config", "--target=aarch64-linux-gnu", "-ffreestanding"];
const withoutLibrary = ["-nostdlib", "-static", "-fuse-ld=lld"];

function output(command: string[]): string {
  const { success, stdout, stderr } = Bun.spawnSync(command);
  if (!success) throw new Error(`${command.join(" ")}: ${stderr}`);
  return stdout.toString();
}

type Isa = "avx2" | "avxvnni" | "avx512" | "avx512vnni" | "avx512bf16" | "amx" | "neon" | "neondot";

/** The kernels of int8 activations are separate files; sets that differ only in these share the others. Those with the bf16
 * instruction take a part of linear from AVX-512. */
const parts: Readonly<Record<Isa, readonly string[]>> = {
  avx2: ["avx2", "int8_avx2", "int8_avxvnni"],
  avxvnni: ["avx2", "int8_avx2", "int8_avxvnni"],
  avx512: ["avx512", "int8_avx512", "int8_avx512vnni"],
  avx512vnni: ["avx512", "int8_avx512", "int8_avx512vnni"],
  avx512bf16: ["avx512bf16", "avx512", "int8_avx512", "int8_avx512vnni", "int8_amx"],
  amx: ["avx512bf16", "avx512", "int8_avx512", "int8_avx512vnni", "int8_amx"],
  neon: ["neon", "int8_neon", "int8_neondot"],
  neondot: ["neon", "int8_neon", "int8_neondot"],
};

/**
 * The library's own objects if it was built here; those for another processor are compiled, and kept until a source changes. These
 * are compiled with -O0: bits do not depend on it, and NEON's take a tenth of the time.
 */
async function objects(isa: Isa, target: string[]): Promise<string[]> {
  const names = [...parts[isa].map((part) => `isa_${part}.c`), "items.c"];
  const built = names.map((name) => join(import.meta.dir, "../.build/release/CPUKernels.build", `${name}.o`));
  if (target.length === 0 && built.every((file) => existsSync(file))) return built;
  const sources = folderText(kernels);
  return await Promise.all(names.map((name) => object(cacheFolder, [...target, ...flags, target.length === 0 ? "-O3" : "-O0"], { path: join(kernels, name) }, [sources])));
}

/** The program's output with one instruction set's table. */
async function lines(folder: string, isa: Isa, target: string[] = [], link: string[] = [], emulator: string[] = []): Promise<string> {
  const binary = join(folder, isa);
  const files = await objects(isa, target);
  output([clang(), ...target, ...link, ...flags, "-O1", `-DTABLE=gd_cpu_${isa}`, ...(isa === "amx" ? ["-DTILES"] : []), program, "-x", "none", ...files, "-o", binary]);
  return output([...emulator, binary]);
}

if (process.platform === "linux" && process.arch === "x64") {
  const features = readFileSync("/proc/cpuinfo", "utf8");
  const qemu = Bun.which("qemu-aarch64") ?? Bun.which("qemu-aarch64-static");

  if (features.includes(" fma") && features.includes(" avx2")) {
    describe("equal bits across instruction sets", async () => {
      using place = temporaryFolder();
      const avx2 = await lines(place.path, "avx2");

      test("every case has its line", () => {
        expect(new Set(avx2.trimEnd().split("\n")).size).toBe(200);
      });
      if (features.includes(" avx512vl")) {
        const avx512 = await lines(place.path, "avx512");
        test("AVX-512 and AVX2", () => expect(avx512).toBe(avx2));
      }
      if (features.includes(" avx512_vnni")) {
        const avx512vnni = await lines(place.path, "avx512vnni");
        test("AVX-512 with VNNI and AVX2", () => expect(avx512vnni).toBe(avx2));
      }
      if (features.includes(" avx_vnni")) {
        const avxvnni = await lines(place.path, "avxvnni");
        test("AVX2 with VNNI and AVX2", () => expect(avxvnni).toBe(avx2));
      }
      if (features.includes(" avx512_bf16")) {
        const avx512bf16 = await lines(place.path, "avx512bf16");
        test("AVX-512 with its bf16 instruction and AVX2", () => expect(avx512bf16).toBe(avx2));
      }
      if (features.includes(" amx_int8") && features.includes(" avx512_bf16")) {
        const amx = await lines(place.path, "amx");
        if (amx === "refused") console.warn("cpu-bits: AMX is not run, since the system does not give its registers");
        else test("AMX and AVX2", () => expect(amx).toBe(avx2));
      }
      if (qemu === null) {
        console.warn("cpu-bits: NEON is not run, since there is no qemu-aarch64 (Debian's qemu-user)");
      } else {
        for (const isa of ["neon", "neondot"] as const) {
          const neon = await lines(place.path, isa, freestanding, withoutLibrary, [qemu, "-cpu", "max"]);
          test(`NEON (${isa}), emulated, and AVX2`, () => expect(neon).toBe(avx2));
        }
      }
    });
  }
}
