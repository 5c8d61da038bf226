/** Loading a model for a GPU: its kernels are compiled while the weights are read, and its activations' dtype follows the weights. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { Device } from "../../lib/index.ts";
import type { FloatDType } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { LoadProgress } from "../../lib/model.ts";
import { onEachBackend } from "../support/backends.ts";
import { openTiny, rejection, tinyFolder } from "../support/models.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";

const golden = join(import.meta.dir, "../golden/models");
const room = { states: 2, pages: { count: 8, tokens: 8 }, batchTokens: 12, promptTokens: 7 } as const;

onEachBackend("a load", ({ device }) => {
  const onMetal = device.backend === "metal";

  test("compiles the kernels of single tokens, of few, and of prompts, and tells how far it is", async () => {
    const passes: number[] = [];
    using _counted = replace(Device.prototype, "prepare", (original) => function (this: Device, build: never) {
      passes.push(1);
      return (original as (this: Device, build: never) => unknown).call(this, build);
    } as Method);
    const seen: LoadProgress[] = [];
    using model = await openTiny(device, { ...room, onProgress: (one) => seen.push(one) });
    const total = onMetal ? 4 : 0; // 1, 4, 7 and 12 tokens
    expect(passes.length).toBe(total);
    expect(seen.map(({ bytes }) => bytes)).toEqual(seen.map(({ bytes }) => bytes).toSorted((a, b) => a - b));
    const last = seen.at(-1)!;
    expect([last.bytes === last.total, last.kernels]).toEqual([true, { ready: total, total }]);
    expect(seen.every(({ kernels }, i) => kernels.ready >= (seen[i - 1]?.kernels.ready ?? 0))).toBe(true);
    // The model's states and pages are free again.
    expect([model.freeStates, model.freePages]).toEqual([2, 8]);
    using sequence = model.sequence();
    const [result] = await model.run([{ sequence, tokens: [1, 2, 3, 4, 5, 6, 7, 8, 9] }]);
    expect(result!.logits.every(Number.isFinite)).toBe(true);
  });

  test.each<[string, FloatDType, FloatDType]>([
    ["qwen3_5-bf16", "f32", "bf16"],
    ["qwen3_5-mlx-4bit", "f32", "bf16"],
    ["qwen35-q8_0", "f32", "bf16"],
    ["qwen3_5-f32-sharded-tied", "f32", "f32"],
  ])("%s has activations of %s, on Metal of %s", async (name, onCpu, onGpu) => {
    using model = await LanguageModel.load(device, join(golden, name), room);
    expect(model.dtype).toBe(onMetal ? onGpu : onCpu);
  });

  test("takes the dtype that it is given", async () => {
    using model = await LanguageModel.load(device, join(golden, "qwen3_5-bf16"), { ...room, dtype: "f16" });
    expect(model.dtype).toBe("f16");
  });

  test.skipIf(!onMetal)("gives the error of kernels that do not compile, and frees everything", async () => {
    const made = new Set<{ disposed: boolean }>();
    using _broken = replace(Device.prototype, "prepare", () => (() => Promise.reject(new Error("the compiler is out of order"))) as Method);
    using _tensors = replace(Device.prototype, "tensor", (original) => function (this: Device, ...args: never[]) {
      const tensor = (original as (this: Device, ...args: never[]) => { disposed: boolean }).call(this, ...args);
      made.add(tensor);
      return tensor;
    } as Method);
    const error = await LanguageModel.load(device, tinyFolder(), room).then(() => undefined, (reason: Error) => reason);
    expect(error?.message).toBe("the compiler is out of order");
    expect(made.size).toBeGreaterThan(0);
    expect([...made].filter(({ disposed }) => !disposed).length).toBe(0);
  });

  test("names an unknown dtype", async () => {
    expect((await rejection(LanguageModel.load(device, tinyFolder(), { dtype: "f64" as never }))).argument).toBe("dtype");
  });
});
