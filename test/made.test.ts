/** Classes whose instances only the library makes: a caller's `new` is refused, and the error names the call to use. */
import { describe, expect, test } from "bun:test";
import { Device, Draft, GatedDeltaNet, Op, Pass, Plan, PoolStep, StateHandle, StatePool, StepPlaceholder, Tensor } from "../lib/index.ts";
import { ChatTemplate, LanguageModel, RunResult, Sequence, Session, SessionCache, Tokenizer } from "../lib/model.ts";
import { thrownBy } from "./support/devices.ts";

type Constructor = new (...args: unknown[]) => object;

const ways: readonly [made: unknown, way: string][] = [
  [Device, "Device.open(…)"],
  [Tensor, "device.tensor(…) instead of a constructor"],
  [Op, "gatedDelta(…) or another op's function"],
  [Plan, "device.plan(…) instead of a constructor"],
  [StatePool, "StatePool.create(…)"],
  [StateHandle, "pool.allocate()"],
  [PoolStep, "pool.step(…)"],
  [StepPlaceholder, "pool.placeholder(sequences)"],
  [Draft, "pool.draft(…)"],
  [Pass, "device.run((pass) => …) or device.plan"],
  [GatedDeltaNet, "GatedDeltaNet.load(…)"],
  [LanguageModel, "LanguageModel.load(…)"],
  [Sequence, "model.sequence()"],
  [RunResult, "what model.run(…) gives"],
  [Session, "model.session()"],
  [SessionCache, "model.cache(…)"],
  [Tokenizer, "Tokenizer.load(…)"],
  [ChatTemplate, "ChatTemplate.load(…)"],
];

describe.each(ways.map(([made, way]) => [(made as Constructor).name, made as Constructor, way] as const))("%s", (name, made, way) => {
  test.each([[[]], [[Symbol("maker"), {}, {}]]])("is not made by new", (args) => {
    expect(thrownBy(() => new made(...args))).toMatchObject({ code: "invalid-argument", op: name, expected: way });
    expect(thrownBy(() => new (class extends made {})(...args))).toMatchObject({ op: name, expected: way });
  });
});

test("nor by a getter that runs while the library makes one", () => {
  const made: unknown[] = [];
  const options = { get backend() { made.push(thrownBy(() => new (Device as unknown as Constructor)("cpu")).expected); return "cpu" as const; } };
  using _ = Device.open(options);
  expect(made).toEqual(["Device.open(…)"]);
});
