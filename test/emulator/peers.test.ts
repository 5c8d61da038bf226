/**
 * Kernels from public projects, for which this emulator was not made, translated unchanged and compared with float64. They are
 * not part of this project: GATED_DELTA_PEER_KERNELS names a folder that holds some or all of
 *   ggml/ggml-metal.metal (with ggml-common.h and ggml-metal-impl.h next to it), mlx-native/gated_delta_net.metal and
 *   gated_delta_net_decode.metal, vllm-metal/gdn_recurrent_decode.metal
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLibrary, type Dispatch, type Library } from "./harness.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const folder = process.env["GATED_DELTA_PEER_KERNELS"] ?? "";
const present = (...path: string[]): boolean =>
  process.platform === "linux" && folder !== "" && existsSync(join(folder, ...path));
const orders = ["forward", "reverse", "random:7"] as const;

type Shape = {
  tokens: number;
  keyHeads: number;
  valueHeads: number;
  keyDim: number;
  valueDim: number;
  sequences: number;
};
type Problem = Shape & {
  query: Float32Array;
  key: Float32Array;
  value: Float32Array;
  decay: Float32Array;
  beta: Float32Array;
  state: Float32Array;
};

function numbers(count: number, seed: number): Float32Array {
  let x = seed >>> 0;
  return Float32Array.from({ length: count }, () => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return (x / 2 ** 32) * 2 - 1;
  });
}

function problem(shape: Shape): Problem {
  const { tokens: t, keyHeads: hk, valueHeads: hv, keyDim: dk, valueDim: dv, sequences: b } = shape;
  const unit = numbers(b * t * hk * dk, 3).map((x) => x * (2 / Math.sqrt(dk)));
  return {
    ...shape,
    query: numbers(b * t * hk * dk, 1),
    key: unit,
    value: numbers(b * t * hv * dv, 5),
    decay: numbers(b * t * hv, 7).map((x) => Math.fround(0.8 + 0.19 * x)),
    beta: numbers(b * t * hv, 11).map((x) => 0.5 + 0.4 * x),
    state: numbers(b * hv * dv * dk, 13),
  };
}

/** The recurrence in float64. State rows are [sequence, value head, value, key]; `keyHead` gives the key head of a value head. */
function reference(
  p: Problem,
  keyHead: (valueHead: number) => number,
  scale: number,
): { out: Float64Array; state: Float64Array } {
  const state = Float64Array.from(p.state);
  const out = new Float64Array(p.sequences * p.tokens * p.valueHeads * p.valueDim);
  for (let b = 0; b < p.sequences; b += 1) {
    for (let t = 0; t < p.tokens; t += 1) {
      for (let h = 0; h < p.valueHeads; h += 1) {
        const token = b * p.tokens + t;
        const k = (token * p.keyHeads + keyHead(h)) * p.keyDim;
        const scalar = token * p.valueHeads + h;
        for (let d = 0; d < p.valueDim; d += 1) {
          const row = ((b * p.valueHeads + h) * p.valueDim + d) * p.keyDim;
          let dot = 0;
          for (let i = 0; i < p.keyDim; i += 1) {
            state[row + i] = (state[row + i] ?? 0) * (p.decay[scalar] ?? 0);
            dot += (state[row + i] ?? 0) * (p.key[k + i] ?? 0);
          }
          const delta = ((p.value[scalar * p.valueDim + d] ?? 0) - dot) * (p.beta[scalar] ?? 0);
          let y = 0;
          for (let i = 0; i < p.keyDim; i += 1) {
            state[row + i] = (state[row + i] ?? 0) + delta * (p.key[k + i] ?? 0);
            y += (state[row + i] ?? 0) * (p.query[k + i] ?? 0);
          }
          out[scalar * p.valueDim + d] = y * scale;
        }
      }
    }
  }
  return { out, state };
}

function relativeRms(x: ArrayLike<number>, expected: Float64Array): number {
  let error = 0;
  let size = 0;
  for (let i = 0; i < expected.length; i += 1) {
    error += ((x[i] ?? NaN) - (expected[i] ?? 0)) ** 2;
    size += (expected[i] ?? 0) ** 2;
  }
  return Math.sqrt(error / size);
}

function run(library: Library, dispatch: Dispatch): void {
  expect(library.run(dispatch).error).toBe("");
}

test.skipIf(folder === "")("GATED_DELTA_PEER_KERNELS names a folder", () => {
  expect(existsSync(folder)).toBe(true);
});

describe.if(present("ggml", "ggml-metal.metal"))("llama.cpp's kernel_gated_delta_net_impl", async () => {
  if (!present("ggml", "ggml-metal.metal")) return;
  const names = ["kernel_gated_delta_net_f32_1", "kernel_gated_delta_net_f32_2", "kernel_gated_delta_net_f32_4"];
  const library = await openLibrary(["ggml-metal.metal"], { directory: join(folder, "ggml"), only: names });
  for (const [n, order] of [
    [1, "forward"],
    [2, "reverse"],
    [4, "random:3"],
  ] as const) {
    test(`${32 * n} columns, ${order}`, () => {
      const p = problem({ tokens: 3, keyHeads: 2, valueHeads: 4, keyDim: 32 * n, valueDim: 32 * n, sequences: 2 });
      const expected = reference(p, (h) => h % p.keyHeads, p.keyDim ** -0.5);
      const gate = p.decay.map((a) => Math.log(a));
      const attention = p.sequences * p.tokens * p.valueHeads * p.valueDim;
      const out = new Float32Array(attention + p.state.length);
      const args = new DataView(new ArrayBuffer(208));
      // ne00..03, nb00..03 of q; the same of k and v; token strides in elements.
      const put = (at: number, values: readonly number[]): void =>
        values.forEach((v, i) => args.setInt32(at + 4 * i, v, true));
      const wide = (at: number, values: readonly number[]): void =>
        values.forEach((v, i) => args.setBigUint64(at + 8 * i, BigInt(v), true));
      const heads = (at: number, dim: number, count: number): void => {
        put(at, [dim, count, p.tokens, p.sequences]);
        wide(at + 16, [4, 4 * dim, 4 * dim * count, 4 * dim * count * p.tokens]);
      };
      heads(0, p.keyDim, p.keyHeads);
      heads(48, p.keyDim, p.keyHeads);
      heads(96, p.valueDim, p.valueHeads);
      put(144, [p.keyDim * p.keyHeads, p.keyDim * p.keyHeads, p.valueDim * p.valueHeads]);
      const short = (name: string, value: number): { name: string; type: string; value: number } => ({
        name: `FC_gated_delta_net_${name}`,
        type: "short",
        value,
      });
      run(library, {
        kernel: `kernel_gated_delta_net_f32_${n}`,
        order,
        constants: [short("ne20", p.valueDim), short("ne30", 1), short("K", 1)],
        buffers: {
          0: new Uint8Array(args.buffer),
          1: p.query,
          2: p.key,
          3: p.value,
          4: gate,
          5: p.beta,
          6: p.state,
          7: out,
        },
        grid: [(p.valueDim / n) * 32, p.valueHeads * n, p.sequences],
        threads: [32, n, 1],
      });
      expect(relativeRms(out.subarray(0, attention), expected.out)).toBeLessThan(2e-6);
      expect(relativeRms(out.subarray(attention), expected.state)).toBeLessThan(2e-6);
    });
  }
});

describe.if(present("mlx-native", "gated_delta_net.metal"))("mlx-native's gated_delta_net_f32", async () => {
  if (!present("mlx-native", "gated_delta_net.metal")) return;
  const library = await openLibrary(["gated_delta_net.metal"], { directory: join(folder, "mlx-native") });
  for (const order of orders) {
    test(order, () => {
      const p = problem({ tokens: 4, keyHeads: 2, valueHeads: 6, keyDim: 64, valueDim: 96, sequences: 2 });
      const expected = reference(p, (h) => h % p.keyHeads, 1);
      const out = new Float32Array(expected.out.length);
      const state = new Float32Array(p.state.length);
      const params = new Uint32Array([p.keyDim, p.valueDim, p.keyHeads, p.valueHeads, p.tokens, p.sequences, 0, 0]);
      run(library, {
        kernel: "gated_delta_net_f32",
        order,
        buffers: {
          0: p.query,
          1: p.key,
          2: p.value,
          3: p.decay.map((a) => -Math.log(a)),
          4: p.beta,
          5: p.state,
          6: out,
          7: state,
          8: params,
        },
        threadgroupBytes: [(2 * p.keyDim + 2 * p.valueDim) * 4],
        grid: [p.valueHeads * p.valueDim, p.sequences],
        threads: [p.valueDim],
      });
      expect(relativeRms(out, expected.out)).toBeLessThan(2e-6);
      expect(relativeRms(state, expected.state)).toBeLessThan(2e-6);
    });
  }
});

describe.if(present("vllm-metal", "gdn_recurrent_decode.metal"))("vllm-metal's decode kernel", async () => {
  if (!present("vllm-metal", "gdn_recurrent_decode.metal")) return;
  // The file is a function's body; MLX generates the signature around it at run time.
  const wrapper = mkdtempSync(join(tmpdir(), "gated-delta-peer-"));
  writeFileSync(
    join(wrapper, "decode.metal"),
    `#include <metal_stdlib>
using namespace metal;
template <typename T, typename StT, int Dk, int Dv, int Hk, int Hv>
[[kernel]] void gdn_decode(
    const device T* q [[buffer(0)]], const device T* k [[buffer(1)]], const device T* v [[buffer(2)]],
    const device float* g [[buffer(3)]], const device T* beta [[buffer(4)]], const device StT* state_in [[buffer(5)]],
    const device int* slot_mapping [[buffer(6)]], const constant int& num_requests [[buffer(7)]],
    device T* y [[buffer(8)]], device StT* state_out [[buffer(9)]],
    uint3 thread_position_in_grid [[thread_position_in_grid]],
    uint3 thread_position_in_threadgroup [[thread_position_in_threadgroup]],
    uint thread_index_in_simdgroup [[thread_index_in_simdgroup]]) {
#include "${join(folder, "vllm-metal", "gdn_recurrent_decode.metal")}"
}
template [[host_name("gdn_decode")]] [[kernel]] decltype(gdn_decode<float, float, 64, 32, 2, 6>) gdn_decode<float, float, 64, 32, 2, 6>;
`,
  );
  const library = await openLibrary(["decode.metal"], { directory: wrapper });
  rmSync(wrapper, { recursive: true });
  for (const order of orders) {
    test(order, () => {
      const p = problem({ tokens: 1, keyHeads: 2, valueHeads: 6, keyDim: 64, valueDim: 32, sequences: 3 });
      const expected = reference(p, (h) => Math.floor(h / (p.valueHeads / p.keyHeads)), 1);
      // Request r reads slot 2 - r of the cache.
      const slots = new Int32Array([2, 1, 0]);
      const size = p.valueHeads * p.valueDim * p.keyDim;
      const cache = new Float32Array(p.state.length);
      slots.forEach((slot, r) => cache.set(p.state.subarray(r * size, (r + 1) * size), slot * size));
      const out = new Float32Array(expected.out.length);
      const state = new Float32Array(p.state.length);
      run(library, {
        kernel: "gdn_decode",
        order,
        buffers: {
          0: p.query,
          1: p.key,
          2: p.value,
          3: p.decay,
          4: p.beta,
          5: cache,
          6: slots,
          7: new Int32Array([3]),
          8: out,
          9: state,
        },
        grid: [32, p.valueDim, p.sequences * p.valueHeads],
        threads: [32, 8, 1],
      });
      expect(relativeRms(out, expected.out)).toBeLessThan(2e-6);
      expect(relativeRms(state, expected.state)).toBeLessThan(2e-6);
    });
  }
});
