/** The golden GGUF models, their blocks as the floats that they stand for, against float64: in every way that they can run. */
import { describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { checkFolder } from "../lib/cli/verify/folders.ts";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { asFloats, ggufPath, partsOf } from "./support/gguf-models.ts";
import { ggufBytes } from "./support/gguf-writer.ts";

const { newPath } = scratch();

describe("the golden models", () => {
  test.each(["qwen35-q4_k_m", "qwen35-q8_0", "qwen35moe-q4_k_m", "qwen3next-bf16"])("%s", async (name) => {
    const folder = newPath(name);
    mkdirSync(folder);
    writeFileSync(join(folder, "model.gguf"), ggufBytes(asFloats(partsOf(ggufPath(name)))));
    copyFileSync(join(dirname(ggufPath(name)), "expected.safetensors"), join(folder, "expected.safetensors"));
    using device = openDevice(1);
    const rows = await checkFolder(folder, device, "f32");
    expect(rows.filter(({ pass }) => !pass)).toEqual([]);
    expect(rows.length).toBeGreaterThan(50);
  }, 1_500_000);
});
