/** Models with int8 activations: the matrices that they concern, the results that they change, and those that stay. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { UnsupportedError } from "../../lib/index.ts";
import { LanguageModel, Session } from "../../lib/model.ts";
import { relRms } from "../../lib/cli/verify/compare.ts";
import { onOnly } from "../support/backends.ts";
import { gatedDelta, rowsOf } from "../support/command.ts";
import { scratch } from "../support/files.ts";
import { logitsOf, rejection, textOf, tinyFolder } from "../support/models.ts";

const golden = (name: string) => join(import.meta.dir, "../golden/models", name);
const options = { states: 2, pages: { count: 12, tokens: 8 } } as const;

onOnly("cpu", "models with int8 activations", ({ device }) => {
  const files = scratch();
  const open = (name: string, activations?: "exact" | "int8") => LanguageModel.load(device, golden(name), { ...options, activations });

  test("matrices of integers are multiplied so, the others exactly; each is named once", async () => {
    using model = await open("qwen3_5-mlx-mixed", "int8");
    expect(model.activations).toBe("int8");
    const forms = new Set(model.matrices.map(({ weightFormat, activations }) => `${weightFormat} ${activations}`));
    expect([...forms].some((form) => /^affine.* int8$/.test(form))).toBe(true);
    expect([...forms].some((form) => /^(f32|f16|bf16) exact$/.test(form))).toBe(true);
    expect([...forms].filter((form) => /^affine.* exact|^(f32|f16|bf16) int8/.test(form))).toEqual([]);
    const names = model.matrices.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.some((name) => name.endsWith("layers.0.mlp.down_proj"))).toBe(true);
    using exact = await open("qwen3_5-mlx-mixed");
    expect(exact.activations).toBe("exact");
    expect(exact.matrices.map(({ name, weightFormat }) => [name, weightFormat])).toEqual(model.matrices.map(({ name, weightFormat }) => [name, weightFormat]));
    expect(exact.matrices.every(({ activations }) => activations === "exact")).toBe(true);
  });

  test("so are MLX's floats of four bits, and those of eight exactly", async () => {
    using model = await LanguageModel.load(device, tinyFolder({ micro: true, hidden: 64, intermediate: 96 }), { ...options, activations: "int8" });
    const forms = new Set(model.matrices.map(({ weightFormat, activations }) => `${weightFormat} ${activations}`));
    for (const form of ["mxfp4 int8", "nvfp4 int8", "mxfp8 exact"]) expect([...forms]).toContain(form);
    expect([...forms].filter((form) => /fp4 exact|fp8 int8/.test(form))).toEqual([]);
  });

  test("a model of floats has the bits of the exact one", async () => {
    const tokens = textOf(1, 30);
    const answers = await Promise.all((["exact", "int8"] as const).map(async (activations) => {
      using model = await LanguageModel.load(device, tinyFolder(), { ...options, activations });
      using sequence = model.sequence();
      return await logitsOf(model, sequence, tokens);
    }));
    expect(answers[1]).toEqual(answers[0]!);
  });

  describe.each(["qwen3_5-mlx-4bit", "qwen35-q4_k_m", "qwen35-q8_0", "qwen3_5_moe-mlx"])("%s", (name) => {
    test("other logits, which are near", async () => {
      const answers = await Promise.all((["exact", "int8"] as const).map(async (activations) => {
        using model = await open(name, activations);
        using sequence = model.sequence();
        return await logitsOf(model, sequence, textOf(2, 40, model.config.vocabSize));
      }));
      const distance = relRms(answers[1]!, answers[0]!);
      expect(distance).toBeGreaterThan(1e-3);
      expect(distance).toBeLessThan(0.4);
    });

    test("verify: every way of reading has the same bits", () => {
      const result = gatedDelta(["verify", "--backend", "cpu", "--json", "--activations", "int8", golden(name)]);
      const rows = rowsOf(result);
      expect([result.status, result.errors]).toEqual([0, ""]);
      const equal = rows.filter(({ tolerance }) => tolerance === 0);
      expect(new Set(equal.map(({ way }) => way)).size).toBeGreaterThan(10);
      for (const row of equal) expect([row.tensor, row.pass, row.maxAbs]).toEqual([row.tensor, true, 0]);
    }, 120_000);
  });

  test("the identity is another, and neither continues the other's sessions", async () => {
    using exact = await open("qwen3_5-mlx-4bit");
    using int8 = await open("qwen3_5-mlx-4bit", "int8");
    const [one, other] = [await exact.identity(), await int8.identity()];
    expect(one).not.toBe(other);
    using again = await open("qwen3_5-mlx-4bit", "int8");
    expect(await again.identity()).toBe(other);
    const path = files.newPath();
    {
      using session = int8.session();
      session.append(textOf(3, 12, int8.config.vocabSize));
      await session.save(path);
    }
    const refusal = await rejection(Session.load(exact, path));
    expect(refusal.message).toContain("model");
    using session = await Session.load(again, path);
    expect(session.length).toBe(12);
  });

  test("wrong options are refused by name", async () => {
    const refusal = await rejection(LanguageModel.load(device, golden("qwen3_5-mlx-4bit"), { ...options, activations: "int4" as never }));
    expect([refusal.code, refusal.message]).toEqual(["invalid-argument", expect.stringContaining("activations")]);
    for (const command of ["generate", "serve", "verify"]) {
      const { status, errors } = gatedDelta([command, golden("qwen3_5-mlx-4bit"), ...(command === "generate" ? ["1 2", "--ids"] : []), "--activations", "int4"]);
      expect([command, status, errors]).toEqual([command, 2, expect.stringContaining("--activations: expected exact or int8")]);
    }
  });

  test("gated-delta generate takes them", () => {
    const run = (...more: string[]) => gatedDelta(["generate", golden("qwen3_5-mlx-4bit"), "1 2 3", "--ids", "--max-tokens", "12", "--quiet", "--backend", "cpu", ...more]);
    const [exact, int8] = [run(), run("--activations", "int8")];
    expect([exact.status, int8.status]).toEqual([0, 0]);
    expect(int8.out.trim().split(/\s+/).length).toBeGreaterThan(1);
  });
});

onOnly("metal", "models with int8 activations", ({ device }) => {
  test("are refused before anything is read", async () => {
    let read = 0;
    const load = LanguageModel.load(device, golden("qwen3_5-mlx-4bit"), { ...options, activations: "int8", onProgress: () => void read++ });
    const refusal = await rejection(load);
    expect(refusal).toBeInstanceOf(UnsupportedError);
    expect(refusal.message).toContain("activations: expected exact on this backend, got int8");
    expect(read).toBe(0);
  });
});
