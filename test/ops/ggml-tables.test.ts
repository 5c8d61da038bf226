/**
 * Every GATED_DELTA_NET and SSM_CONV case of ggml's test-backend-ops, LocalAI's cases of the in-place ops, and cases that both
 * omit: the written states, judged separately from the output; gates near 0; more than 32767 tokens; more value
 * heads than key heads at the usual dim. The bound is NMSE 1e-10, where theirs is 1e-7. On an emulated GPU the five
 * largest of LocalAI's cases take half a minute; they run with `GATED_DELTA_TEST_LONG=1`.
 */
import { describe, expect, test } from "bun:test";
import { gatedDeltaNetInplace } from "../../lib/ggml.ts";
import { causalConv1d } from "../../lib/index.ts";
import type { Tensor } from "../../lib/index.ts";
import { causalConv1d as referenceConv } from "../reference/causal-conv1d.ts";
import { onEachBackend, onOnly } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { buildNet, buildUpdate, expectClose, judgeNet, judgeUpdate, runNet, runUpdate } from "../support/ggml-runs.ts";
import type { NetSpec } from "../support/ggml-runs.ts";
import { Random } from "../support/random.ts";

/** Key heads, dim, tokens, sequences, value heads for each key head, gates per key, snapshots. */
type Row = readonly [number, number, number, number, number?, boolean?, number?];

// ggml's permuted cases (heads before tokens in memory) are the caller's layouts: they are tested below, as strided views.
const ggmlCases: readonly Row[] = [
  [32, 128, 1, 1], [32, 16, 1, 1], [32, 16, 1, 1, 1, true], [16, 64, 1, 2], [4, 64, 4, 1], [4, 64, 4, 2], [8, 32, 4, 2, 2],
  [4, 64, 1, 1, 1, true], [4, 64, 1, 2, 1, true], [4, 16, 1, 2, 1, true], [4, 32, 4, 1, 1, true], [4, 64, 4, 2, 1, true],
  [8, 32, 4, 2, 2, true], [4, 16, 4, 2, 1, true],
  [4, 64, 64, 1], [4, 64, 127, 1], [4, 64, 256, 1], [4, 64, 65, 1], [4, 64, 100, 1], [4, 64, 200, 1], [4, 64, 127, 2],
  [4, 64, 64, 1, 1, true], [4, 64, 33, 1, 1, true], [4, 64, 100, 1, 1, true],
  [4, 16, 2, 1, 1, false, 2], [4, 32, 4, 1, 1, false, 4], [4, 64, 4, 2, 1, false, 4], [8, 128, 4, 1, 1, false, 4],
  [4, 64, 4, 2, 1, true, 4], [8, 32, 4, 2, 2, true, 4], [4, 32, 8, 1, 1, false, 3], [4, 64, 16, 2, 1, false, 4],
];
const localAiCases: readonly Row[] = [
  [4, 128, 64, 1], [4, 128, 128, 1], [4, 128, 127, 1], [4, 128, 256, 1], [4, 128, 100, 2], [2, 128, 200, 3], [4, 128, 130, 1],
  [32, 128, 64, 1], [32, 128, 100, 1], [32, 128, 128, 2],
];
/** Several value heads per key head at the usual dim; more snapshots than the sequence has tokens; no snapshots. */
const ownCases: readonly Row[] = [
  [4, 128, 3, 2, 2], [2, 128, 5, 1, 3], [2, 128, 2, 2, 4, true], [1, 128, 3, 2, 2, false, 9], [2, 32, 2, 3, 2, true, 5], [1, 8, 1, 1, 1, false, 2],
];

const specOf = ([keyHeads, dim, tokens, sequences, repeat = 1, kda = false, keep = 0]: Row): NetSpec => {
  return { keyHeads, dim, tokens, sequences, repeat, kda, ...(keep > 0 && { keep }) };
};
/** State numbers · tokens, to which the time of a case is proportional. */
const workOf = ([keyHeads, dim, tokens, sequences, repeat = 1]: Row) => keyHeads * repeat * dim * dim * tokens * sequences;

onEachBackend("ggml's tables", ({ device, emulated }) => {
  // An emulated GPU takes seconds for a large case, as does the reference for the largest, so these run once, with gates that remember.
  const large = emulated ? 2 ** 22 : 2 ** 25;
  const most = emulated && process.env["GATED_DELTA_TEST_LONG"] !== "1" ? 2 ** 24 : Infinity;
  describe.each([["ggml", ggmlCases], ["LocalAI", localAiCases], ["own", ownCases]] as const)("%s", (_, rows) => {
    for (const row of rows.filter((each) => workOf(each) <= most)) {
      test(`GATED_DELTA_NET ${row.join(", ")}`, () => {
        for (const remember of workOf(row) > large ? [true] : [false, true]) {
          const given = buildNet({ ...specOf(row), remember }, workOf(row));
          judgeNet(given, runNet(device, given));
        }
      });
    }
  });

  test("query, key and value as views: heads before tokens, and parts of one packed row", () => {
    for (const [tokens, sequences, kda] of [[4, 1, false], [4, 1, true], [1, 1, true], [3, 2, false]] as const) {
      const given = buildNet({ keyHeads: 4, dim: 64, tokens, sequences, kda, remember: true });
      const plain = runNet(device, given);
      const dims = [sequences, tokens, 4, 64] as const;
      const channels = 3 * 4 * 64;
      using packed = device.tensor("f32", [sequences, tokens, channels]);
      using heads = device.tensor("f32", [3, 4, sequences * tokens, 64]);
      const layouts: ((i: number) => Tensor)[] = [
        (i) => packed.view({ offset: i * 256, shape: dims, strides: [tokens * channels, channels, 64, 1] }),
        (i) => heads.view({ offset: i * heads.size / 3, shape: dims, strides: [tokens * 64, 64, sequences * tokens * 64, 1] }),
      ];
      for (const layout of layouts) {
        const [q, k, v] = [given.q, given.k, given.v].map((tensor, i) => layout(i).copyFrom(tensor.data)) as [Tensor, Tensor, Tensor];
        using gate = device.tensorFrom("f32", given.gate.shape, given.gate.data);
        using beta = device.tensorFrom("f32", given.beta.shape, given.beta.data);
        using state = device.tensorFrom("f32", given.cache.shape, given.cache.data);
        using out = device.tensor("f32", dims);
        device.run(gatedDeltaNetInplace({ q, k, v, gate, beta, state, stateDst: state, out }));
        device.wait();
        expect([out.data, state.data]).toEqual([plain.out, plain.cache]);
      }
    }
  });

  const widths = [3, 4, 9];
  test("SSM_CONV, with and without bias and SiLU", () => {
    const random = new Random(7);
    const next = () => random.uniform(-1, 1);
    for (const width of widths) {
      for (const channels of emulated ? [1024, 1536] : [1024, 1536, 2048]) {
        for (const [tokens, sequences] of [[1, 1], [width + 1, 1], [1, 4], [64, 1], [64, 4]]) {
          const x = fill([tokens! * sequences!, channels], "f32", next);
          const weight = fill([channels, width], "f32", next);
          const before = fill([sequences!, channels, width - 1], "f32", next);
          for (const [bias, activation] of [[false, "none"], [false, "silu"], [true, "silu"]] as const) {
            const given = {
              x,
              weight,
              state: before,
              ...(bias && { bias: fill([channels], "f32", next) }),
              activation,
              cuSeqlens: Array.from({ length: sequences! + 1 }, (_, s) => s * tokens!),
            };
            using stack = new DisposableStack();
            const place = ({ shape, data }: { shape: readonly number[]; data: Float64Array }) => stack.use(device.tensorFrom("f32", shape, data));
            const state = place(given.state);
            const out = stack.use(device.tensor("f32", given.x.shape));
            device.run(causalConv1d({
              x: place(given.x), weight: place(given.weight), bias: given.bias && place(given.bias), state, out,
              activation, cuSeqlens: given.cuSeqlens,
            }));
            device.wait();
            const expected = referenceConv(given);
            expectClose("output", out.data, expected.out.data);
            expectClose("ring", state.data, expected.state!.data);
          }
        }
      }
    }
  });

  test("SSM_CONV_UPDATE and SSM_CONV_UPDATE_IDS: the ring, too, and in one cache", () => {
    for (const width of [3, 4]) {
      for (const channels of [256, 3328]) {
        for (const sequences of emulated ? [1, 4, 32] : [1, 4, 32, 128]) {
          const plain = buildUpdate({ width, channels, sequences }, sequences);
          judgeUpdate(plain, runUpdate(device, plain));
          judgeUpdate(plain, runUpdate(device, plain, true));
          const ids = new Random(sequences).distinct(sequences, sequences);
          const shuffled = buildUpdate({ width, channels, sequences, ids }, width);
          judgeUpdate(shuffled, runUpdate(device, shuffled));
        }
      }
    }
  });
});

onOnly("cpu", "ggml's tables", ({ device }) => {
  test("more tokens than 16 bits count", () => {
    const given = buildNet({ keyHeads: 1, dim: 8, tokens: 40_000, sequences: 1, remember: true, keep: 3 });
    judgeNet(given, runNet(device, given));
  });
});
