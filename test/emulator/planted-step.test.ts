/** The fused step's taps, which threadgroups share: correct as they are, and each way to race over them is reported. */
import { expect, setDefaultTimeout } from "bun:test";
import { rmSync } from "node:fs";
import { openLibrary, type Dispatch, type Library } from "./harness.ts";
import { describe, test } from "./linux.ts";
import { changed, constant, shaders, structure } from "./own-kernels.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const file = "step.metal";
const kernel = "gd_step_f32_f32_k64";
const [keyHeads, valueHeads, keyDim, valueDim, width] = [2, 6, 64, 16, 4];
const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;

const numbers = (count: number, scale: number, shift = 0): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => shift + scale * Math.sin(1.7 * i + 0.3 * count));

/** One sequence, in place: three value heads share each key head's columns. */
function dispatch(rows = constant("GDM_STEP_ROWS")): Dispatch & { convState: Float32Array; before: Float32Array; x: Float32Array } {
  const convState = numbers(channels * (width - 1), 1);
  const x = numbers(channels, 1);
  const flags = { TILED_HEADS: false, GATE_PER_KEY: false, OUT_F32: true, SMALL_BATCH: true, CONV_BIAS: false, CONV_SILU: true };
  const more = { CONV_STATE_F32: true, NORM_SIGMOID: false, NORM_GATE_FIRST: false };
  const numbered = {
    QK_NORM: constant("GDM_NORM_L2"),
    GATE_FORM: constant("GDM_GATE_DECAY"),
    BETA_FORM: constant("GDM_BETA_GIVEN"),
    CONV_WIDTH: width,
    TILE_ROWS: rows,
    ...Object.fromEntries(
      ["GATE", "BETA", "A_LOG", "DT_BIAS", "CONV_WEIGHT", "CONV_BIAS", "NORM_WEIGHT"].map((name) => [`${name}_DTYPE`, constant("GDM_F32")]),
    ),
  };
  return {
    kernel,
    convState,
    before: convState.slice(),
    x,
    constants: [
      ...Object.entries({ ...flags, ...more }).map(([name, value]) => ({ name, type: "bool", value })),
      ...Object.entries(numbered).map(([name, value]) => ({ name, type: "uint", value })),
    ],
    buffers: {
      0: x,
      1: numbers(channels * width, 0.5),
      2: new Float32Array(4),
      3: convState,
      4: new Float32Array(4),
      5: numbers(valueHeads, 0.1, 0.8),
      6: numbers(valueHeads, 0.2, 0.5),
      7: new Float32Array(4),
      8: new Float32Array(4),
      9: numbers(valueHeads * valueDim * keyDim, 1),
      10: new Float32Array(4),
      11: numbers(valueHeads * valueDim, 1),
      12: numbers(valueDim, 1),
      13: new Float32Array(valueHeads * valueDim),
      14: new Int32Array(4),
      15: new Int32Array(4),
      16: new Uint32Array(4),
      17: structure("GDMStep", {
        keyHeads,
        valueHeads,
        keyDim,
        valueDim,
        xTokenStride: channels,
        gateTokenStride: valueHeads,
        gateHeadStride: 1,
        betaTokenStride: valueHeads,
        betaHeadStride: 1,
        zTokenStride: valueHeads * valueDim,
        zHeadStride: valueDim,
        outTokenStride: valueHeads * valueDim,
        outHeadStride: valueDim,
        scale: 0.125,
        epsilon: 1e-6,
        bound: 0,
        normEpsilon: 1e-6,
      }),
      18: new Int32Array(25),
    },
    grid: [valueHeads * 128, 1],
    threads: [128],
  };
}

async function stepOf(folder: string): Promise<Library> {
  try {
    return await openLibrary([file], { directory: folder, only: [kernel] });
  } finally {
    if (folder !== shaders) rmSync(folder, { recursive: true });
  }
}

const orders = ["forward", "reverse", "random:1", "random:2", "random:3"] as const;

test("as it is, the taps move on by one column in every order", async () => {
  const library = await stepOf(shaders);
  const rows = constant("GDM_STEP_ROWS");
  for (const [order, d] of orders.flatMap((o) => [[o, dispatch(rows)], [o, dispatch(2 * rows)]] as const)) {
    expect(library.run({ ...d, order }).error).toBe("");
    const wanted = Float32Array.from(d.before, (_, i) => (i % (width - 1) === width - 2 ? d.x[Math.floor(i / (width - 1))]! : d.before[i + 1]!));
    expect(d.convState).toEqual(wanted);
  }
});

describe("planted", () => {
  const faults: readonly [string, string | RegExp, string][] = [
    ["every threadgroup writes the shared taps", "(ratio == 1 || before[0] % ratio == ratio - 1)", "true"],
    ["the first to arrive writes them, not the last", "(ratio == 1 || before[0] % ratio == ratio - 1)", "(ratio == 1 || before[0] % ratio == 0)"],
    ["no fence before the arrival", /atomic_thread_fence\([^;]*;\n {2}uint before/, "uint before"],
    ["no fence after it", /if \(before % ratio == ratio - 1\) atomic_thread_fence[^;]*;/, ""],
    [
      "an arrival before all threads have read",
      /threadgroup_barrier\(mem_flags::mem_threadgroup \| mem_flags::mem_device\);\n( *if \(index == 0 && ratio > 1\)[^;]*;)/,
      "$1\n  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);",
    ],
  ];
  for (const [name, from, to] of faults) {
    test(name, async () => {
      const library = await stepOf(changed(file, from, to));
      for (const order of orders) {
        const { error } = library.run({ ...dispatch(), order });
        expect(error).toMatch(/^(step\.metal|conv\.h):\d+: data race: (read|write) of buffer [34] "conv(State|Staged)"/);
        expect(error).toContain("threadgroups of one dispatch are not ordered");
      }
    });
  }
});
