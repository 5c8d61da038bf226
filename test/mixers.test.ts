/** The mixers of other architectures against float64 arithmetic on the stored weights, in every way that they can run. */
import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { GatedDeltaNet } from "../lib/index.ts";
import { bitsEqual, bounds, relRms } from "../lib/cli/verify/compare.ts";
import { openSafetensors } from "../lib/checkpoint/safetensors.ts";
import { onEachBackend } from "./support/backends.ts";
import { drive, together } from "./support/drive.ts";
import type { Call } from "./support/drive.ts";
import { reference } from "./reference/tensor.ts";

const folder = join(import.meta.dir, "golden", "mixers");

/** One mixer: two sequences, each with a prompt of 70 tokens and 5 tokens to decode. */
function mixer(name: string) {
  const path = join(folder, name);
  using file = openSafetensors(join(path, "expected.safetensors"));
  const [sequences = 0, tokens = 0, width = 0] = file.info("hidden").shape;
  const hidden = file.float32("hidden");
  const rows = Array.from({ length: sequences }, (_, s) => {
    return reference([tokens, width], hidden.subarray(s * tokens * width, (s + 1) * tokens * width));
  });
  return {
    name,
    path,
    model: join(path, "model.safetensors"),
    layer: Number(file.metadata.get("layer")),
    prefill: Number(file.metadata.get("prefill_tokens")),
    tokens,
    hidden: rows,
    output: file.float32("output"),
  };
}

const mixers = readdirSync(folder).sort().map(mixer);
const flat = (parts: readonly Float32Array[]) => Float32Array.from(parts.flatMap((part) => [...part]));

test("there are four", () => {
  expect(mixers.map(({ name }) => name)).toEqual(["bailing_hybrid", "glm5_next", "kimi_linear", "olmo_hybrid"]);
});

onEachBackend("mixers", ({ device, emulated }) => {
  describe.each(mixers)("$name", ({ model, layer: index, hidden, output, tokens, prefill }) => {
    test("whole, split and decoded: near float64, and of equal bits", () => {
      using layer = GatedDeltaNet.load(device, model, { layer: index });
      const lengths = hidden.map(() => tokens);
      const base = drive(layer, hidden, [together(lengths)]);
      expect(relRms(flat(base.outputs), output)).toBeLessThanOrEqual(bounds.layer);
      const all = (length: number) => together(lengths.map(() => length));
      const steps = Array.from({ length: tokens - prefill }, () => all(1));
      const ways: [calls: Call[], how: "forward" | "decode"][] = [
        [[all(prefill), ...steps], "decode"],
        [[all(prefill), ...steps], "forward"],
        [[all(17), all(1), all(tokens - 18)], "forward"],
        [lengths.map((_, sequence) => [{ sequence, tokens }]), "forward"],
      ];
      for (const [calls, how] of ways.slice(0, emulated ? 1 : ways.length)) {
        const result = drive(layer, hidden, calls, how);
        result.outputs.forEach((one, i) => expect(bitsEqual(one, base.outputs[i]!)).toBe(true));
        result.states.forEach((one, i) => expect(bitsEqual(one, base.states[i]!)).toBe(true));
      }
    });
  });
});
