/** Settings in the environment: lane order, checks, matrix sums, time. An unknown value is refused by name. */
import { expect, setDefaultTimeout } from "bun:test";
import { openSource, type Dispatch } from "./harness.ts";
import { describe, test } from "./linux.ts";

// A first run compiles the runtime, which can take a while on a busy machine.
setDefaultTimeout(300_000);

const library = openSource(
  "settings.metal",
  `#include <metal_stdlib>
using namespace metal;
kernel void order(device atomic_uint* count [[buffer(0)]], device uint* out [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  out[atomic_fetch_add_explicit(count, 1u, memory_order_relaxed)] = i;
}
kernel void race(device uint* out [[buffer(1)]], uint i [[thread_position_in_grid]]) { out[i / 2] = i; }
kernel void unwritten(device uint* out [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  threadgroup uint t[64];
  out[i] = t[i];
}
kernel void product(device const float* a [[buffer(0)]], device float* out [[buffer(1)]]) {
  simdgroup_float8x8 m;
  simdgroup_load(m, a);
  simdgroup_multiply(m, m, m);
  simdgroup_store(m, out);
}
kernel void endless(device uint* out [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  volatile device uint* p = out;
  for (uint k = 0; p[i] != 1u; k = (k + 1) % 64) p[i] = 2u + k;
}
kernel void tiny(device const float* a [[buffer(0)]], device float* out [[buffer(1)]]) {
  out[0] = a[0] * a[1];                               // subnormal, of two normal numbers
  out[1] = a[2] * a[4];                               // moved by arithmetic
  out[2] = a[3] + a[2];
  out[3] = as_type<float>(as_type<uint>(a[2]));       // by its bits
  out[4] = a[2];
}
`,
);
const run = async (
  dispatch: Partial<Dispatch> & { kernel: string },
  environment: Record<string, string>,
): Promise<string> =>
  (await library).run(
    {
      grid: [64],
      threads: [64],
      buffers: { 0: new Uint32Array(1), 1: new Uint32Array(64) },
      order: "environment",
      checks: "environment",
      ...dispatch,
    },
    environment,
  ).error;

describe("GATED_DELTA_EMULATOR_ORDER", () => {
  const ordered = async (order: string): Promise<number[]> => {
    const out = new Uint32Array(64);
    expect(
      await run({ kernel: "order", buffers: { 0: new Uint32Array(1), 1: out } }, { GATED_DELTA_EMULATOR_ORDER: order }),
    ).toBe("");
    return Array.from(out);
  };
  const forward = Array.from({ length: 64 }, (_, i) => i);

  test("forward, and where it is not set", async () => {
    expect(await ordered("forward")).toEqual(forward);
    expect(await ordered("")).toEqual(forward);
  });
  test("reverse", async () => expect(await ordered("reverse")).toEqual(forward.toReversed()));
  test("random: every lane once, equal seeds equally, different seeds differently", async () => {
    const one = await ordered("random:17");
    expect(one.toSorted((a, b) => a - b)).toEqual(forward);
    expect(one).not.toEqual(forward);
    expect(await ordered("random:17")).toEqual(one);
    expect(await ordered("random:18")).not.toEqual(one);
  });
  for (const bad of ["backward", "random", "random:", "random:x"]) {
    test(`${bad} is refused`, async () => {
      expect(await run({ kernel: "order" }, { GATED_DELTA_EMULATOR_ORDER: bad })).toMatch(
        /^kernel order: GATED_DELTA_EMULATOR_ORDER/,
      );
    });
  }
});

describe("GATED_DELTA_EMULATOR_CHECKS", () => {
  const found = async (checks: string): Promise<boolean[]> => {
    const race = await run({ kernel: "race" }, { GATED_DELTA_EMULATOR_CHECKS: checks });
    const unwritten = await run({ kernel: "unwritten" }, { GATED_DELTA_EMULATOR_CHECKS: checks });
    return [race.includes("data race"), unwritten.includes("no thread of the group has written")];
  };
  test("all, and where it is not set", async () => {
    expect(await found("all")).toEqual([true, true]);
    expect(await found("")).toEqual([true, true]);
  });
  test("none", async () => expect(await found("none")).toEqual([false, false]));
  test("one, or both by name", async () => {
    expect(await found("races")).toEqual([true, false]);
    expect(await found("uninitialised")).toEqual([false, true]);
    expect(await found("uninitialised,races")).toEqual([true, true]);
  });
  test("others are refused", async () => {
    expect(await run({ kernel: "race" }, { GATED_DELTA_EMULATOR_CHECKS: "races,everything" })).toContain(
      '"everything" is not all, none, races or uninitialised',
    );
  });
});

describe("GATED_DELTA_EMULATOR_MATRIX", () => {
  const input = Float32Array.from({ length: 64 }, (_, i) => Math.fround(Math.sin(i * 12.9898) * 1.7));
  const product = async (sum: string): Promise<Float32Array> => {
    const out = new Float32Array(64);
    expect(
      await run(
        { kernel: "product", grid: [32], threads: [32], buffers: { 0: input, 1: out } },
        { GATED_DELTA_EMULATOR_MATRIX: sum },
      ),
    ).toBe("");
    return out;
  };
  test("three ways to sum, near each other and not the same", async () => {
    const [fused, pairwise, exact] = [await product("fused"), await product("pairwise"), await product("exact")];
    expect(Array.from(await product(""))).toEqual(Array.from(fused));
    expect(Array.from(pairwise)).not.toEqual(Array.from(fused));
    for (let i = 0; i < 64; i += 1) {
      let sum = 0;
      for (let k = 0; k < 8; k += 1) sum += (input[(i >> 3) * 8 + k] ?? 0) * (input[k * 8 + (i & 7)] ?? 0);
      expect(exact[i]).toBe(Math.fround(sum));
      expect(Math.abs((fused[i] ?? 0) - sum)).toBeLessThan(3e-6);
      expect(Math.abs((pairwise[i] ?? 0) - sum)).toBeLessThan(3e-6);
    }
  });
  test("others are refused", async () => {
    expect(await run({ kernel: "product" }, { GATED_DELTA_EMULATOR_MATRIX: "sloppy" })).toContain(
      "it must be fused, pairwise or exact",
    );
  });
});

describe("GATED_DELTA_EMULATOR_SUBNORMALS", () => {
  const tiny = Float32Array.of(2 ** -100, 2 ** -40, 2 ** -140, 2 ** -120, 1);
  const results = async (subnormals: string): Promise<number[]> => {
    const out = new Float32Array(5);
    const dispatch: Partial<Dispatch> & { kernel: string } = { kernel: "tiny", grid: [1], threads: [1], buffers: { 0: tiny, 1: out } };
    expect(await run(dispatch, { GATED_DELTA_EMULATOR_SUBNORMALS: subnormals })).toBe("");
    return Array.from(out);
  };
  const moved = 2 ** -140;
  test("keep, and where it is not set", async () => {
    const kept = [2 ** -140, moved, 2 ** -120 + moved, moved, moved];
    expect(await results("keep")).toEqual(kept);
    expect(await results("")).toEqual(kept);
  });
  test("flush: zero to every operation, and kept where only bits move", async () => {
    expect(await results("flush")).toEqual([0, 0, 2 ** -120, moved, moved]);
  });
  test("others are refused", async () => {
    expect(await run({ kernel: "tiny" }, { GATED_DELTA_EMULATOR_SUBNORMALS: "some" })).toContain("it must be keep or flush");
  });
});

describe("GATED_DELTA_EMULATOR_TIMEOUT", () => {
  test("a kernel that does not end is a fault", async () => {
    const error = await run({ kernel: "endless", grid: [1], threads: [1] }, { GATED_DELTA_EMULATOR_TIMEOUT: "1" });
    expect(error).toMatch(
      /^settings\.metal:19: the dispatch has run for longer than GATED_DELTA_EMULATOR_TIMEOUT allows; kernel endless, thread \(0, 0, 0\)/,
    );
  });
  test("what is no number is refused", async () => {
    expect(await run({ kernel: "endless" }, { GATED_DELTA_EMULATOR_TIMEOUT: "soon" })).toContain(
      "it must be a whole number of seconds",
    );
  });
});
