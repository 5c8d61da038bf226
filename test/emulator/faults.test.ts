/** A kernel's mistake comes back as a message that names the .metal file and line, and nothing else breaks. */
import { expect, setDefaultTimeout } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openLibrary, type Dispatch } from "./harness.ts";
import { describe, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const folder = join(import.meta.dirname, "kernels");
const source = readFileSync(join(folder, "faults.metal"), "utf8");

type Case = { kernel: string; says: RegExp } & Partial<Dispatch>;

/** The line marked "// fault" in the kernel, or the line elsewhere that is marked for it. */
function faultLine(kernel: string): number {
  const lines = source.split("\n");
  const marked = lines.findIndex((line) => line.includes(`// fault in ${kernel}`));
  if (marked >= 0) return marked + 1;
  const start = lines.findIndex((line) => line.includes(`kernel void ${kernel}(`));
  return lines.findIndex((line, n) => n > start && line.includes("// fault")) + 1;
}

/** The line, as a message gives it, of the text's only occurrence. */
const lineOf = (text: string): string =>
  `faults\\.metal:${source.split("\n").findIndex((line) => line.includes(text)) + 1}\\b`;

const floats = (count: number): Float32Array => new Float32Array(count);

const cases: readonly Case[] = [
  {
    kernel: "past_the_end",
    says: /out of bounds: write of 4 bytes at byte 252 of buffer 0 "out", which has 252/,
    buffers: { 0: floats(63) },
  },
  { kernel: "before_the_start", says: /out of bounds: read of 4 bytes at byte -4 of buffer 1 "in"/ },
  {
    kernel: "inlined",
    says: /out of bounds: read of 2 bytes at byte 256 of buffer 1 "in"/,
    buffers: { 0: new Uint16Array(64), 1: new Uint16Array(128) },
  },
  {
    kernel: "writes_read_only",
    says: /write to buffer 1 "in", which is read-only/,
    buffers: { 1: { data: floats(64), readOnly: true } },
  },
  { kernel: "misaligned", says: /misaligned write of 16 bytes/ },
  {
    kernel: "missing_barrier",
    says: new RegExp(
      `data race: (read|write) of threadgroup variable "tile".*at ${lineOf("tile[63 - i] = tile[i]")}.*mem_threadgroup`,
    ),
  },
  {
    kernel: "wrong_flags",
    says: new RegExp(`data race: read of threadgroup variable "tile".*wrote \\(at ${lineOf("tile[i] = float(i);")}\\)`),
  },
  {
    kernel: "lockstep",
    says: new RegExp(`data race: read of threadgroup variable "first".*wrote \\(at ${lineOf("first[0] = 3.0f")}\\)`),
  },
  { kernel: "device_race", says: /data race: (read|write) of buffer 0 "out".*mem_device/ },
  {
    kernel: "groups_race",
    says: /data race: (read|write) of buffer 0 "out".*another threadgroup/,
    grid: [128],
    threads: [64],
  },
  {
    kernel: "divergent_sites",
    says: new RegExp(
      `divergent threadgroup_barrier: thread \\(0, 0, 0\\).*waits in another one, at ${lineOf("if (i < 32) threadgroup_barrier")}`,
    ),
  },
  {
    kernel: "barrier_after_return",
    says: /divergent threadgroup_barrier: .*(has already returned|another thread has returned)/,
  },
  {
    kernel: "unequal_trips",
    says: /divergent threadgroup_barrier: .*(has already returned|another thread has returned)/,
  },
  {
    kernel: "divergent_sum",
    says: new RegExp(`divergent simd_max: .*waits in simd_sum at ${lineOf("x = simd_sum(1.0f);")}`),
  },
  {
    kernel: "barrier_in_one_lane",
    says: new RegExp(
      `divergent simdgroup_barrier: .*threadgroup_barrier at ${lineOf("  threadgroup_barrier(mem_flags::mem_none);")}`,
    ),
  },
  { kernel: "uneven_delta", says: /simd_shuffle_down: delta is 0 in lane 0 and 1 in lane 1/ },
  { kernel: "inactive_lane", says: /simd_shuffle: lane \d+ reads lane 7, which is not active/ },
  { kernel: "matrix_without_lane", says: /simdgroup_store with 31 active lanes of 32/, grid: [32], threads: [32] },
  {
    kernel: "matrix_out_of_bounds",
    says: /out of bounds: write of 4 bytes at byte \d+ of buffer 0 "out"/,
    grid: [32],
    threads: [32],
  },
  {
    kernel: "never_written",
    says: /read of threadgroup variable "tile" at byte \d+, which no thread of the group has written/,
  },
  {
    kernel: "past_the_tile",
    says: /out of bounds: write of 4 bytes (at byte 128 of threadgroup variable "tile", which has 128|outside every)/,
  },
  {
    kernel: "past_the_argument",
    says: /out of bounds: write of 2 bytes (at byte 96 of threadgroup variable "tile", which has 96|outside every)/,
    threadgroupBytes: [96],
  },
  { kernel: "private_array", says: /index out of bounds of a local array/ },
  { kernel: "component", says: /component 4 of a vector of 4/ },
  { kernel: "zero_divisor", says: /division by zero/ },
  { kernel: "zero_vector_divisor", says: /division by zero/, buffers: { 0: new Int32Array(256) } },
  { kernel: "recursion", order: "reverse", says: /stack overflow/ },
  { kernel: "waits_for_another_group", says: /waits for another in a loop on an atomic/, grid: [2], threads: [1] },
  {
    kernel: "null_pointer",
    says: /null pointer: a buffer that is not bound/,
    constants: [{ name: "HAS_BIAS", type: "bool", value: false }],
  },
];

describe("a kernel's faults", async () => {
  const library = await openLibrary(["faults.metal"], { directory: folder });
  for (const { kernel, says, ...rest } of cases) {
    test(kernel, () => {
      const buffers = rest.buffers ?? { 0: floats(64), 1: floats(64) };
      const { error, status } = library.run({ grid: [64], threads: [64], ...rest, kernel, buffers });
      expect(error).toMatch(says);
      expect(error).toStartWith(`faults.metal:${faultLine(kernel)}: `);
      expect(error).toContain(`kernel ${kernel}, thread (`);
      expect(status).toBe(1);
    });
  }

  test("a missing barrier is found in every lane order", () => {
    for (const order of ["forward", "reverse", "random:1", "random:2"] as const) {
      const { error } = library.run({
        kernel: "missing_barrier",
        buffers: { 0: floats(64), 1: floats(64) },
        grid: [64],
        threads: [64],
        order,
      });
      expect(error).toContain("data race");
    }
  });
});
