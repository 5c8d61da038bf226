/** This project's own prefill kernel: correct as it is, and each mistake planted in it or in its dispatch is reported. */
import { expect, setDefaultTimeout } from "bun:test";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkTypes, parseTogether } from "./check.ts";
import { openLibrary, type Dispatch, type Library } from "./harness.ts";
import { lint } from "./lint/lint.ts";
import { describe, test } from "./linux.ts";
import { changed, constant, root, shaders, structure } from "./own-kernels.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const file = "recurrence_prefill.metal";
const kernel = "gd_prefill_f32_f32_k64";

const [tokens, keyHeads, valueHeads, keyDim, valueDim] = [21, 2, 4, 64, 40];
let seed = 1;
const noise = (count: number, scale: number, shift = 0): Float32Array =>
  Float32Array.from({ length: count }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return shift + scale * (seed / 2 ** 31 - 1);
  });

const query = noise(tokens * keyHeads * keyDim, 1),
  key = noise(tokens * keyHeads * keyDim, 0.2),
  value = noise(tokens * valueHeads * valueDim, 1);
const gate = noise(tokens * valueHeads, 0.1, 0.85),
  beta = noise(tokens * valueHeads, 0.4, 0.5),
  initial = noise(2 * valueHeads * valueDim * keyDim, 1);

/** `rows`: the rows of a lane group. */
function dispatch(outAtOnce = false, rows = 1): Dispatch & { state: Float32Array; out: Float32Array } {
  const state = initial.slice();
  const out = new Float32Array(tokens * valueHeads * valueDim);
  const threads = constant("GDM_PREFILL_THREADS") / rows;
  const params = structure("GDMRecurrence", {
    keyHeads,
    valueHeads,
    keyDim,
    valueDim,
    queryTokenStride: keyHeads * keyDim,
    queryHeadStride: keyDim,
    keyTokenStride: keyHeads * keyDim,
    keyHeadStride: keyDim,
    valueTokenStride: valueHeads * valueDim,
    valueHeadStride: valueDim,
    outTokenStride: valueHeads * valueDim,
    outHeadStride: valueDim,
    gateTokenStride: valueHeads,
    gateHeadStride: 1,
    betaTokenStride: valueHeads,
    betaHeadStride: 1,
    scale: 0.125,
    epsilon: 1e-6,
    bound: 0,
  });
  const block = constant("GDM_PREFILL_BLOCK") * (outAtOnce ? 2 : 1);
  const floats = block * (2 * keyDim + 1 + 1 + 2 * constant("GDM_PREFILL_ROWS"));
  return {
    kernel,
    state,
    out,
    constants: [
      { name: "TILED_HEADS", type: "bool", value: false },
      { name: "GATE_PER_KEY", type: "bool", value: false },
      { name: "QK_NORM", type: "uint", value: constant("GDM_NORM_NONE") },
      { name: "OUT_F32", type: "bool", value: true },
      { name: "HAS_STORES", type: "bool", value: false },
      { name: "RECORD", type: "bool", value: false },
      { name: "PARTS", type: "bool", value: false },
      { name: "OUT_AT_ONCE", type: "bool", value: outAtOnce },
      { name: "TILE_ROWS", type: "uint", value: rows },
    ],
    buffers: {
      0: query,
      1: key,
      2: value,
      3: gate,
      4: beta,
      5: state,
      6: new Float32Array(4),
      7: out,
      8: new Int32Array([0, 13, tokens]),
      9: new Int32Array([0, 1]),
      10: new Int32Array([0, 1]),
      11: new Uint32Array(4),
      12: new Int32Array(4),
      13: new Float32Array(4),
      14: new Float32Array(4),
      15: new Float32Array(4),
      16: new Float32Array(4),
      17: params,
      18: new Uint32Array(2),
    },
    threadgroupBytes: [Math.ceil((floats * 4) / 16) * 16],
    grid: [Math.ceil(valueDim / constant("GDM_PREFILL_ROWS")) * threads, valueHeads, 2],
    threads: [threads],
  };
}

function reference(): { out: Float64Array; state: Float64Array } {
  const state = Float64Array.from(initial);
  const out = new Float64Array(tokens * valueHeads * valueDim);
  for (let t = 0; t < tokens; t += 1)
    for (let h = 0; h < valueHeads; h += 1)
      for (let d = 0; d < valueDim; d += 1) {
        const row = (((t < 13 ? 0 : 1) * valueHeads + h) * valueDim + d) * keyDim;
        const k = (t * keyHeads + Math.floor(h / (valueHeads / keyHeads))) * keyDim;
        const s = t * valueHeads + h;
        let dot = 0;
        for (let i = 0; i < keyDim; i += 1)
          dot += (state[row + i] = (state[row + i] ?? 0) * (gate[s] ?? 0)) * (key[k + i] ?? 0);
        const delta = ((value[s * valueDim + d] ?? 0) - dot) * (beta[s] ?? 0);
        let sum = 0;
        for (let i = 0; i < keyDim; i += 1)
          sum += (state[row + i] = (state[row + i] ?? 0) + delta * (key[k + i] ?? 0)) * (query[k + i] ?? 0);
        out[s * valueDim + d] = sum * 0.125;
      }
  return { out, state };
}

function relativeRms(x: Float32Array, expected: Float64Array): number {
  const error = expected.reduce((sum, e, i) => sum + ((x[i] ?? NaN) - e) ** 2, 0);
  return Math.sqrt(error / expected.reduce((sum, e) => sum + e * e, 0));
}

async function planted(from: string | RegExp, to: string): Promise<Library> {
  const folder = changed(file, from, to);
  try {
    return await openLibrary([file], { directory: folder, only: [kernel] });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);";

describe("as it is", async () => {
  const library = await openLibrary([file], { directory: shaders, only: [kernel] });
  const bits: string[] = [];
  for (const order of ["forward", "reverse", "random:1", "random:2"] as const) {
    test.each([
      [false, 1],
      [false, 2],
      [true, 1],
      [true, 2],
    ])(`agrees with float64, ${order}, outputs at once: %p, rows of a lane group: %p`, (outAtOnce, rows) => {
      const d = dispatch(outAtOnce, rows);
      expect(library.run({ ...d, order }).error).toBe("");
      const expected = reference();
      expect(relativeRms(d.out, expected.out)).toBeLessThan(2e-6);
      expect(relativeRms(d.state, expected.state)).toBeLessThan(2e-6);
      bits.push(new Uint32Array(d.out.buffer).join());
      expect(bits.at(-1)).toBe(bits[0] ?? "");
    });
  }

  const hosts: readonly [string, (d: Dispatch & { state: Float32Array }) => Dispatch, RegExp][] = [
    [
      "an overlapping argument",
      (d) => ({ ...d, buffers: { ...d.buffers, 7: d.state } }),
      new RegExp(`kernel ${kernel}: buffer 7 "out" overlaps buffer 5 "state"`),
    ],
    [
      "a too-large threadgroup",
      (d) => ({ ...d, threads: [1024, 2], grid: [2048, valueHeads, 2] }),
      new RegExp(
        `kernel ${kernel}: 2048 threads per threadgroup; this kernel takes at most ${constant("GDM_PREFILL_THREADS")}`,
      ),
    ],
    [
      "too much threadgroup memory",
      (d) => ({ ...d, threadgroupBytes: [32784] }),
      new RegExp(`kernel ${kernel}: threadgroup memory: 32784 bytes are needed`),
    ],
    [
      "a missing argument",
      (d) => ({ ...d, buffers: Object.fromEntries(Object.entries(d.buffers ?? {}).filter(([i]) => i !== "4")) }),
      new RegExp(`kernel ${kernel}: buffer 4 "beta" is not bound`),
    ],
    [
      "too little threadgroup memory",
      (d) => ({ ...d, threadgroupBytes: [1024] }),
      /\.(metal|h):\d+: out of bounds: .*kernel gd_prefill/,
    ],
    [
      "a state too small",
      (d) => ({ ...d, buffers: { ...d.buffers, 5: new Float32Array(keyDim) } }),
      /rows\.h:\d+: out of bounds: read of 16 bytes at byte \d+ of buffer 5 "state"/,
    ],
  ];
  for (const [name, change, says] of hosts) {
    test(name, () => expect(library.run(change(dispatch())).error).toMatch(says));
  }
});

describe("planted", () => {
  for (const nth of [0, 1]) {
    test(`barrier ${nth + 1} missing`, async () => {
      let count = 0;
      const folder = changed(file, /threadgroup_barrier\(mem_flags::mem_threadgroup\);/g, "BARRIER");
      const text = readFileSync(join(folder, file), "utf8").replace(/BARRIER/g, () => (count++ === nth ? "" : barrier));
      writeFileSync(join(folder, file), text);
      const library = await openLibrary([file], { directory: folder, only: [kernel] });
      rmSync(folder, { recursive: true });
      for (const order of ["forward", "reverse", "random:4"] as const) {
        expect(library.run({ ...dispatch(), order }).error).toMatch(
          /^(recurrence_prefill\.metal|prefill\.h|rows\.h):\d+: (data race: (read|write) of threadgroup variable "memory"|read of threadgroup variable "memory" .* no thread of the group has written)/,
        );
      }
    });
  }

  test("a divergent barrier", async () => {
    const library = await planted(barrier, `if (index != 70) ${barrier}`);
    // Without the race check, which would first report that this thread reads too early.
    expect(library.run({ ...dispatch(), checks: 0 }).error).toMatch(
      /^(rows\.h|prefill\.h|recurrence_prefill\.metal):\d+: divergent \w+: .*waits in threadgroup_barrier at recurrence_prefill\.metal:\d+/,
    );
  });

  test("a barrier with the wrong mem_flags", async () => {
    const library = await planted(barrier, "threadgroup_barrier(mem_flags::mem_device);");
    expect(library.run(dispatch()).error).toMatch(
      /data race: read of threadgroup variable "memory".*no barrier with mem_threadgroup/,
    );
  });

  test("a row too far", async () => {
    const library = await planted("if (t < tokens && r < rows) {", "if (t < tokens && r <= rows) {");
    expect(library.run(dispatch()).error).toMatch(
      /^(storage\.h|recurrence_prefill\.metal):\d+: (out of bounds|data race)/,
    );
  });

  test("a missing address space", () => {
    const folder = changed("rows.h", "device const T* p, uint lane", "const T* p, uint lane");
    const unit = parseTogether([file], { directory: folder });
    rmSync(folder, { recursive: true });
    const problems = [...lint(unit), ...checkTypes(unit)].map((p) => `${p.file} ${p.rule}`);
    expect(problems).toContain("rows.h address-space-missing");
    expect(problems).toContain("recurrence_prefill.metal address-space");
  });
});

test("the shaders pass the typed check and the linter, together and as they are", () => {
  const files = readdirSync(shaders)
    .filter((f) => f.endsWith(".metal"))
    .map((f) => join("shaders", f));
  const unit = parseTogether(files, { directory: root });
  expect([...checkTypes(unit), ...lint(unit)].map((p) => `${p.file}:${p.line}: [${p.rule}] ${p.message}`)).toEqual([]);
});
