/** Misuse of a whole model: each mistake gets a typed error that names the argument, and changes nothing. */
import { afterAll, describe, expect, test } from "bun:test";
import { bitsEqual } from "../lib/cli/verify/compare.ts";
import { LanguageModel, Sequence } from "../lib/model.ts";
import type { BatchEntry, LoadModelOptions } from "../lib/model.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { tinyModel } from "./support/model-folders.ts";
import { coldLogits, logitsOf, openTiny, rejection, tinyFolder } from "./support/models.ts";

const device = openDevice(2);
afterAll(() => device.close());
const { vocabulary } = tinyModel;
const lastRow = (logits: Float32Array) => logits.subarray(-vocabulary);

describe("what is refused", () => {
  test("names the argument, and changes nothing", async () => {
    using model = await openTiny(device);
    using stranger = await openTiny(device);
    using sequence = model.sequence();
    using foreign = stranger.sequence();
    const disposed = model.sequence();
    disposed[Symbol.dispose]();
    await logitsOf(model, sequence, [5, 6, 7]);
    const { freePages, freeStates } = model;
    const good = { sequence, tokens: [1] };
    const past = tinyModel.maxPositions - 2;
    const wrong: readonly [unknown, string, string][] = [
      [undefined, "invalid-argument", "batch"],
      [{ length: 1 }, "invalid-argument", "batch"],
      [[undefined], "invalid-argument", "batch[0]"],
      [[{ sequence }], "invalid-argument", "batch[0].tokens"],
      [[{ tokens: [1] }], "invalid-argument", "batch[0].sequence"],
      [[{ sequence: { tokens: 3 }, tokens: [1] }], "invalid-argument", "batch[0].sequence"],
      [[{ sequence: Object.create(Sequence.prototype) as unknown, tokens: [1] }], "invalid-argument", "batch[0].sequence"],
      [[good, good], "invalid-argument", "batch[1].sequence"],
      [[{ sequence: foreign, tokens: [1] }], "invalid-argument", "batch[0].sequence"],
      [[{ sequence: disposed, tokens: [1] }], "disposed", "batch[0].sequence"],
      [[{ sequence, tokens: [] }], "range", "batch[0].tokens"],
      [[{ sequence, tokens: new Int32Array(0) }], "range", "batch[0].tokens"],
      [[{ sequence, tokens: "abc" }], "invalid-argument", "batch[0].tokens"],
      [[{ sequence, tokens: new Float32Array(2) }], "invalid-argument", "batch[0].tokens"],
      [[{ sequence, tokens: [1, vocabulary] }], "range", "batch[0].tokens[1]"],
      [[{ sequence, tokens: [-1] }], "range", "batch[0].tokens[0]"],
      [[{ sequence, tokens: new Uint32Array([2 ** 32 - 1]) }], "range", "batch[0].tokens[0]"],
      [[{ sequence, tokens: [1.5] }], "invalid-argument", "batch[0].tokens[0]"],
      [[{ sequence, tokens: [NaN] }], "invalid-argument", "batch[0].tokens[0]"],
      [[{ sequence, tokens: ["1"] }], "invalid-argument", "batch[0].tokens[0]"],
      [[{ sequence, tokens: [1n] }], "invalid-argument", "batch[0].tokens[0]"],
      [[{ sequence, tokens: new Int32Array(past) }], "range", "batch[0].tokens"],
      [[{ sequence, tokens: new Int32Array(1e6) }], "range", "batch[0].tokens"],
      [[{ sequence, tokens: new Array<number>(tinyModel.maxPositions + 1).fill(0) }], "range", "batch[0].tokens"],
      [[{ sequence, tokens: new (class extends Int32Array { override get length() { return Infinity as never; } })(1) }], "range", "batch[0].tokens"],
      [[{ sequence, tokens: new (class extends Int32Array { override get length() { return 2 as never; } })(1) }], "invalid-argument", "batch[0].tokens[1]"],
      [[{ sequence, tokens: [1], logits: "some" }], "invalid-argument", "batch[0].logits"],
      [[{ sequence, tokens: [1], logit: "all" }], "invalid-argument", "batch[0].logit"],
      [[good, ...Array.from({ length: 4 }, () => good)], "shape", "batch"],
      [[{ sequence, tokens: new Int32Array(8 * 32) }], "out-of-memory", "batch"],
      [[{ sequence, get tokens(): number[] { throw new Error("no"); } }], "invalid-argument", "batch[0]"],
    ];
    for (const [batch, code, argument] of wrong) {
      const error = await rejection(model.run(batch as BatchEntry[]));
      expect([error.code, error.op, error.argument]).toEqual([code as never, "model.run", argument]);
      expect([model.freePages, model.freeStates, sequence.tokens]).toEqual([freePages, freeStates, 3]);
    }
    expect(await model.run([])).toEqual([]);
    expect(bitsEqual(await logitsOf(model, sequence, [8], "last"), lastRow(await coldLogits(stranger, [5, 6, 7, 8])))).toBe(true);
  });

  test("a model and its sequences after disposal", async () => {
    const model = await openTiny(device);
    const sequence = model.sequence();
    model[Symbol.dispose]();
    model[Symbol.dispose]();
    expect([model.disposed, sequence.disposed]).toEqual([true, true]);
    expect((await rejection(model.run([{ sequence, tokens: [1] }]))).code).toBe("disposed");
    expect(thrownBy(() => model.sequence()).code).toBe("disposed");
    expect(thrownBy(() => sequence.fork()).code).toBe("disposed");
    expect(thrownBy(() => sequence.tokens).code).toBe("disposed");
    sequence[Symbol.dispose]();
  });

  test("more sequences than there are states", async () => {
    using model = await openTiny(device, { states: 2 });
    using one = model.sequence();
    using two = one.fork();
    expect(thrownBy(() => model.sequence())).toMatchObject({ code: "out-of-memory", op: "model.sequence" });
    expect(thrownBy(() => two.fork())).toMatchObject({ code: "out-of-memory", op: "sequence.fork" });
    two[Symbol.dispose]();
    using three = model.sequence();
    expect(three.tokens).toBe(0);
  });

  test("options of another kind", async () => {
    const folder = tinyFolder();
    const wrong: readonly [object, string][] = [
      [{ sessions: 0 }, "sessions"],
      [{ context: 1.5 }, "context"],
      [{ sessions: 1, states: 1 }, "sessions"],
      [{ context: 1, pages: 1 }, "context"],
      [{ states: 1, pages: 1, swap: -1 }, "swap"],
      [{ states: 0, pages: 1 }, "states"],
      [{ states: "4", pages: 1 }, "states"],
      [{ states: { slots: 4, dtype: "f64" }, pages: 1 }, "states.dtype"],
      [{ states: { slots: -1 }, pages: 1 }, "states.slots"],
      [{ states: 1, pages: { count: 1, tokens: 0 } }, "pages.tokens"],
      [{ states: 1, pages: 1, dtype: "i32" }, "dtype"],
      [{ states: 1, pages: 1, batchTokens: 0 }, "batchTokens"],
      [{ states: 1, pages: 1, draftTokens: -1 }, "draftTokens"],
      [{ states: 1, pages: 1, draftTokens: 1.5 }, "draftTokens"],
      [{ states: 1, pages: 1, onProgress: 1 }, "onProgress"],
      [{ states: 1, pages: 1, threads: 1 }, "threads"],
    ];
    for (const [options, argument] of wrong) {
      const error = await rejection(LanguageModel.load(device, folder, options as never));
      expect([error.code, error.op, error.argument]).toEqual(["invalid-argument", "LanguageModel.load", argument]);
    }
    const tooMany: readonly [Pick<LoadModelOptions, "states" | "pages">, string][] = [
      [{ states: 1, pages: 2 ** 31 - 1 }, "pages"],
      [{ states: 2 ** 31 - 1, pages: 1 }, "states"],
      [{ states: { slots: 2 ** 31 - 1, dtype: "f16" }, pages: 1 }, "states"],
    ];
    for (const [options, argument] of tooMany) {
      const error = await rejection(LanguageModel.load(device, folder, options));
      expect([error.code, error.op, error.argument]).toEqual(["out-of-memory", "LanguageModel.load", argument]);
    }
    expect((await rejection(LanguageModel.load({} as never, folder, { states: 1, pages: 1 }))).code).toBe("invalid-argument");
  });
});
