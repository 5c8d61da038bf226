// The CPU kernels with fused multiply-add sum in one order at every vector width: AVX2, AVX-512 and NEON give the same
// bits. NEON runs under Debian's qemu-user where that is installed, and on its own on aarch64.
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { clang } from "./emulator/toolchain.ts";
import { temporaryFolder } from "./setup/folder.ts";

const kernels = join(import.meta.dir, "../swift/Sources/CPUKernels");
const program = join(import.meta.dir, "native/cpu-bits.c");
const flags = ["-x", "c", "-std=c17", "-O3", "-ffp-contract=off", "-fno-math-errno", `-I${join(kernels, "include")}`];
const freestanding = [
  "--no-default-config", "--target=aarch64-linux-gnu", "-ffreestanding", "-nostdlib", "-static", "-fuse-ld=lld",
];

function output(command: string[]): string {
  const { success, stdout, stderr } = Bun.spawnSync(command);
  if (!success) throw new Error(`${command.join(" ")}: ${stderr}`);
  return stdout.toString();
}

type Isa = "avx2" | "avx512" | "avx512bf16" | "neon";

/** What the program prints with one instruction set's table. */
function lines(folder: string, isa: Isa, target: string[] = [], emulator: string[] = []): string {
  const binary = join(folder, isa);
  const files = [`isa_${isa}.c`, "items.c"].map((name) => join(kernels, name));
  output([clang(), ...target, ...flags, `-DTABLE=gd_cpu_${isa}`, program, ...files, "-o", binary]);
  return output([...emulator, binary]);
}

if (process.platform === "linux" && process.arch === "x64") {
  const features = readFileSync("/proc/cpuinfo", "utf8");
  const qemu = Bun.which("qemu-aarch64") ?? Bun.which("qemu-aarch64-static");

  if (features.includes(" fma") && features.includes(" avx2")) {
    describe("equal bits across instruction sets", () => {
      using place = temporaryFolder();
      const avx2 = lines(place.path, "avx2");

      test("every case has its line", () => {
        expect(new Set(avx2.trimEnd().split("\n")).size).toBe(200);
      });
      if (features.includes(" avx512vl")) {
        const avx512 = lines(place.path, "avx512");
        test("AVX-512 and AVX2", () => expect(avx512).toBe(avx2));
      }
      if (features.includes(" avx512_bf16")) {
        const avx512bf16 = lines(place.path, "avx512bf16");
        test("AVX-512 with its bf16 instruction and AVX2", () => expect(avx512bf16).toBe(avx2));
      }
      if (qemu === null) {
        console.warn("cpu-bits: NEON is not run, since there is no qemu-aarch64 (Debian's qemu-user)");
      } else {
        const neon = lines(place.path, "neon", freestanding, [qemu]);
        test("NEON, emulated, and AVX2", () => expect(neon).toBe(avx2));
      }
    });
  }
}
