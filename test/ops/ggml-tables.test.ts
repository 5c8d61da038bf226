/**
 * Every GATED_DELTA_NET and SSM_CONV case of ggml's test-backend-ops, LocalAI's cases of the in-place ops, and what both
 * leave out: the states that are written, judged apart from the output; gates near 0; more than 32767 tokens; value
 * heads beside key heads at the usual dim. The bound is NMSE 1e-10, where theirs is 1e-7.
 */
import { describe, test } from "bun:test";
import { causalConv1d } from "../../lib/index.ts";
import { causalConv1d as referenceConv } from "../reference/causal-conv1d.ts";
import { onEachBackend, onOnly } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { buildNet, buildUpdate, expectClose, judgeNet, judgeUpdate, runNet, runUpdate } from "../support/ggml-runs.ts";
import type { NetSpec } from "../support/ggml-runs.ts";
import { Random } from "../support/random.ts";

/** Key heads, dim, tokens, sequences, value heads for each key head, gates per key, snapshots. */
type Row = readonly [number, number, number, number, number?, boolean?, number?];

// ggml's permuted cases (q, k and v with heads before tokens) are layouts of the caller's: strided views, tested elsewhere.
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
/** Value heads in multiples at the usual dim, snapshots longer than the sequence, none at all. */
const ownCases: readonly Row[] = [
  [4, 128, 3, 2, 2], [2, 128, 5, 1, 3], [2, 128, 2, 2, 4, true], [1, 128, 3, 2, 2, false, 9], [2, 32, 2, 3, 2, true, 5], [1, 8, 1, 1, 1, false, 2],
];

const specOf = ([keyHeads, dim, tokens, sequences, repeat = 1, kda = false, keep = 0]: Row): NetSpec => {
  return { keyHeads, dim, tokens, sequences, repeat, kda, ...(keep > 0 && { keep }) };
};
/** State numbers · tokens: what the time of a case grows with. */
const workOf = ([keyHeads, dim, tokens, sequences, repeat = 1]: Row) => keyHeads * repeat * dim * dim * tokens * sequences;

onEachBackend("ggml's tables", ({ device, emulated }) => {
  // An emulated GPU takes seconds for a million: there, the cases of each kind that are not the largest.
  const most = emulated ? 2 ** 18 : Infinity;
  describe.each([["ggml", ggmlCases], ["LocalAI", localAiCases], ["own", ownCases]] as const)("%s", (_, rows) => {
    for (const row of rows.filter((row) => workOf(row) <= most)) {
      test(`GATED_DELTA_NET ${row.join(", ")}`, () => {
        for (const remember of [false, true]) {
          const given = buildNet({ ...specOf(row), remember }, workOf(row));
          judgeNet(given, runNet(device, given));
        }
      });
    }
  });

  const widths = [3, 4, 9];
  test("SSM_CONV, with and without bias and SiLU", () => {
    const random = new Random(7);
    const next = () => random.uniform(-1, 1);
    const sizes = emulated ? [1024] : [1024, 1536, 2048];
    for (const width of widths) {
      for (const channels of sizes) {
        for (const [tokens, sequences] of emulated ? [[1, 2]] : [[1, 1], [width + 1, 1], [1, 4], [64, 1], [64, 4]]) {
          for (const [bias, activation] of [[false, "none"], [false, "silu"], [true, "silu"]] as const) {
            const given = {
              x: fill([tokens! * sequences!, channels], "f32", next),
              weight: fill([channels, width], "f32", next),
              state: fill([sequences!, channels, width - 1], "f32", next),
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
      for (const channels of emulated ? [256] : [256, 3328]) {
        for (const sequences of emulated ? [1, 4] : [1, 4, 32, 128]) {
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
