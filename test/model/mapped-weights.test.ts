/** Models whose weights stay in their files: the same numbers, and typed errors where the files do not stay as they are. */
import { afterAll, describe, expect, test } from "bun:test";
import { closeSync, cpSync, existsSync, mkdirSync, openSync, readFileSync, readdirSync, renameSync, truncateSync, utimesSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { tiny } from "../../bench/model/model-shape.ts";
import { writeRandomModel } from "../../bench/model/random-model.ts";
import { Device } from "../../lib/index.ts";
import { windowsOver } from "../../lib/checkpoint/mapped-tensors.ts";
import { writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { FileError, GatedDeltaError } from "../../lib/errors.ts";
import { LanguageModel, Session } from "../../lib/model.ts";
import type { LoadModelOptions } from "../../lib/model.ts";
import { expectFits } from "../../lib/model/memory-plan.ts";
import { readModel, writeChanged, zeros } from "../support/changed-models.ts";
import { Random } from "../support/random.ts";
import { onEachBackend } from "../support/backends.ts";
import { runProgram } from "../support/children.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { tinyModel } from "../support/model-folders.ts";
import { rejection, tinyFolder } from "../support/models.ts";
import { tokensOf } from "../support/sessions.ts";

const { newPath } = scratch();
const golden = join(import.meta.dir, "../golden/models");
const prompt = [3, 1, 4, 1, 5, 9, 2, 6];
const options: LoadModelOptions = { states: 3, pages: { count: 12, tokens: 8 }, draftTokens: 4 };
const mapped: LoadModelOptions = { ...options, weights: "mapped" };

/** A copy of a folder whose headers end `shift` bytes after a multiple of 16: the format allows spaces after the JSON. */
function shifted(folder: string, shift: number): string {
  const copy = newPath("model");
  cpSync(folder, copy, { recursive: true });
  for (const name of readdirSync(copy).filter((one) => one.endsWith(".safetensors"))) {
    const bytes = readFileSync(join(copy, name));
    const length = Number(bytes.readBigUInt64LE(0));
    const spaces = Buffer.alloc((((shift - 8 - length) % 16) + 16) % 16, " ");
    const head = Buffer.alloc(8);
    head.writeBigUInt64LE(BigInt(length + spaces.length));
    writeFileSync(join(copy, name), Buffer.concat([head, bytes.subarray(8, 8 + length), spaces, bytes.subarray(8 + length)]));
  }
  return copy;
}

/** A copy of a model with fused experts, with one matrix per expert, as transformers saves Qwen3-Next; each layer's are in all `files`. */
function separated(folder: string, files: number): string {
  const { tensors, config } = readModel(folder);
  const parts = Array.from({ length: files }, (): Record<string, TensorToWrite> => ({}));
  const map: Record<string, string> = {};
  const fileOf = (i: number) => `model-${String(i + 1).padStart(5, "0")}-of-${String(files).padStart(5, "0")}.safetensors`;
  const put = (name: string, tensor: TensorToWrite, i = 0) => {
    parts[i % files]![name] = tensor;
    map[name] = fileOf(i % files);
  };
  for (const [name, tensor] of Object.entries(tensors)) {
    const [, prefix, which] = /^(.*\.experts\.)(gate_up_proj|down_proj)$/.exec(name) ?? [];
    if (prefix === undefined) {
      put(name, tensor);
      continue;
    }
    const [count = 0, rows = 0, columns = 0] = tensor.shape;
    const all = tensor.data as Uint8Array;
    const names = which === "down_proj" ? ["down_proj"] : ["gate_proj", "up_proj"];
    const bytes = all.length / count / names.length;
    for (let i = 0; i < count * names.length; i++) {
      const data = all.subarray(i * bytes, (i + 1) * bytes);
      const expert = Math.floor(i / names.length);
      put(`${prefix}${expert}.${names[i % names.length]}.weight`, { dtype: tensor.dtype, shape: [rows / names.length, columns], data }, expert);
    }
  }
  const copy = newPath("model");
  mkdirSync(copy, { recursive: true });
  parts.forEach((part, i) => writeSafetensors(join(copy, fileOf(i)), part, { format: "pt" }));
  writeFileSync(join(copy, "model.safetensors.index.json"), JSON.stringify({ metadata: {}, weight_map: map }));
  writeFileSync(join(copy, "config.json"), JSON.stringify(config));
  return copy;
}

/** A folder that a test can damage. */
function ownCopy(folder: string): string {
  const copy = newPath("model");
  cpSync(folder, copy, { recursive: true });
  return copy;
}

/** The logits of a prompt and of two further tokens. */
async function logitsOf(model: LanguageModel): Promise<Float32Array[]> {
  using sequence = model.sequence();
  const rows: Float32Array[] = [];
  for (const tokens of [prompt, [7], [8]]) {
    const [result] = await model.run([{ sequence, tokens, logits: "all" }]);
    rows.push(result!.logits.slice());
  }
  return rows;
}

const share = ({ weights: { mapped, copied } }: LanguageModel) => mapped / (mapped + copied);

onEachBackend("mapped weights", ({ device, name: backend }) => {
  const micro = "micro-scaled";
  // An emulated GPU is slow: one folder of each kind of file. test/ops/mapped-weights.test.ts covers all places.
  const few = ["qwen3_5-bf16", "qwen3_5-f32-sharded-tied", "qwen3_5-mlx-4bit", "qwen3_5_moe", "qwen3_next-mlx"];
  const all = readdirSync(golden).filter((name) => existsSync(join(golden, name, "config.json")));
  const folders = [...(device.emulated ? few : all), micro];
  const folderOf = (name: string) => (name === micro ? tinyFolder({ micro: true, hidden: 64, intermediate: 96, heads: 3, kvHeads: 1, valueDim: 16 }) : join(golden, name));
  /** Mapped shares of small models with interleaved projections, whose rows are gathered, and with vectors that are much of the model. */
  const least: Readonly<Record<string, number>> = { "qwen3_next-mlx": 0.85, qwen3_next: 0.85, [micro]: 0.9 };
  const shifts = backend === "cpu" ? [0, 4, 8, 1, 2, 7] : [1];
  test.each(folders)("%s has the bits, the identity and the sessions of a copied one, wherever its tensors begin", async (name) => {
    using copied = await LanguageModel.load(device, folderOf(name), options);
    expect(copied.weights.mapped).toBe(0);
    const expected = await logitsOf(copied);
    using session = copied.session();
    session.append(prompt);
    await tokensOf(session.generate({ maxTokens: 3 }));
    const file = newPath("session.safetensors");
    await session.save(file);
    for (const shift of shifts) {
      using model = await LanguageModel.load(device, shifted(folderOf(name), shift), mapped);
      expect(model.weights.mapped + model.weights.copied).toBe(copied.weights.copied);
      expect(share(model)).toBeGreaterThan(least[name] ?? 0.95);
      expect(await logitsOf(model)).toEqual(expected);
      expect(await model.identity()).toBe(await copied.identity());
      using other = await Session.load(model, file);
      using same = session.fork();
      expect(await tokensOf(other.generate({ maxTokens: 4 }))).toEqual(await tokensOf(same.generate({ maxTokens: 4 })));
    }
  });

  test("disposing a model right after its commit leaves the work its windows, and releases them after it", async () => {
    // A submission, including that of the test before this one, lets go of its memory a moment after it is reported as finished.
    const settled = async (bytes: number) => {
      for (let i = 0; i < 1000 && device.memory.mapped + device.memory.own > bytes; i++) await Bun.sleep(5);
      return device.memory;
    };
    const before = await settled(0);
    const model = await LanguageModel.load(device, tinyFolder(), mapped);
    expect(device.memory.mapped).toBeGreaterThan(0);
    const sequence = model.sequence();
    const run = model.run([{ sequence, tokens: prompt, logits: "none" }]);
    model[Symbol.dispose]();
    await run.catch(() => {}); // the model may be gone before its turn
    await device.finish();
    expect(await settled(before.mapped + before.own)).toEqual(before);
  });

  test("a cut file is refused before anything runs", async () => {
    const folder = ownCopy(tinyFolder());
    const path = join(folder, "model.safetensors");
    using model = await LanguageModel.load(device, folder, mapped);
    using sequence = model.sequence();
    await model.run([{ sequence, tokens: prompt }]);
    truncateSync(path, 100);
    const error = await rejection(model.run([{ sequence, tokens: [1] }]));
    expect(error).toBeInstanceOf(FileError);
    expect((error as FileError).path).toBe(path);
    expect((error as Error).message).toMatch(/the unchanged file that was mapped, of \d+ bytes, got a file of 100 bytes/);
  });
});

const device = openDevice(2);
afterAll(() => device.close());

describe("changed files", () => {
  const pathOf = (folder: string) => join(folder, "model.safetensors");
  const changes: Record<string, (folder: string) => void> = {
    "cut": (folder) => truncateSync(pathOf(folder), 1000),
    "longer": (folder) => writeFileSync(pathOf(folder), "x", { flag: "a" }),
    "written to in place": (folder) => {
      const descriptor = openSync(pathOf(folder), "r+");
      writeSync(descriptor, "x", 5000);
      closeSync(descriptor);
    },
    "given another time": (folder) => utimesSync(pathOf(folder), 1, 1),
    "renamed": (folder) => renameSync(pathOf(folder), `${pathOf(folder)}-away`),
    "replaced": (folder) => {
      cpSync(pathOf(folder), `${pathOf(folder)}-new`);
      renameSync(`${pathOf(folder)}-new`, pathOf(folder));
    },
  };
  test.each(Object.keys(changes))("a file that is %s ends runs, plans and sessions with an error that names it", async (change) => {
    const folder = ownCopy(tinyFolder());
    using model = await LanguageModel.load(device, folder, mapped);
    using session = model.session();
    session.append(prompt);
    const pieces = session.generate({ maxTokens: 30 });
    for (let i = 0; i < 4; i++) await pieces.next();
    using sequence = model.sequence();
    await model.run([{ sequence, tokens: prompt }]);
    await model.run([{ sequence, tokens: [5] }]); // a recorded plan
    await Bun.sleep(20); // file systems record the time of a clock's last tick
    changes[change]!(folder);
    const expectRefusal = async (promise: Promise<unknown>) => {
      const error = await rejection(promise);
      expect(error).toBeInstanceOf(FileError);
      expect((error as FileError).path).toBe(pathOf(folder));
    };
    await expectRefusal((async () => { while (!(await pieces.next()).done); })());
    await expectRefusal(model.run([{ sequence, tokens: [5] }]));
    using later = model.session();
    later.append(prompt);
    await expectRefusal(tokensOf(later.generate({ maxTokens: 2 })));
    // Other models of the device continue.
    using other = await LanguageModel.load(device, tinyFolder(), mapped);
    await logitsOf(other);
  });

  test("one of many files is enough", async () => {
    const folder = ownCopy(join(golden, "qwen3_5-f32-sharded-tied"));
    using model = await LanguageModel.load(device, folder, mapped);
    using sequence = model.sequence();
    await model.run([{ sequence, tokens: prompt }]);
    const path = join(folder, "model-00007-of-00010.safetensors");
    truncateSync(path, 64);
    expect(((await rejection(model.run([{ sequence, tokens: [1] }]))) as FileError).path).toBe(path);
  });

  test("copied weights do not need their files", async () => {
    const folder = ownCopy(tinyFolder());
    using model = await LanguageModel.load(device, folder, options);
    const before = await logitsOf(model);
    truncateSync(pathOf(folder), 0);
    expect(await logitsOf(model)).toEqual(before);
  });
});

describe("released layouts", () => {
  const forms = { "as transformers saves one": { dtype: "bf16" }, "in float32": { dtype: "f32" }, "as mlx-lm converts one to 4 bits": { bits: 4, group: 64, dtype: "bf16" } } as const;
  const experts = { num_experts: 16, num_experts_per_tok: 3, moe_intermediate_size: 64, shared_expert_intermediate_size: 64 };
  const shapes = { dense: tiny, "of experts": { ...tiny, experts } };
  const each = Object.entries(shapes).flatMap(([what, shape]) => Object.entries(forms).map(([how, form]) => [what, how, shape, form] as const));
  test.each(each)("at least 95 %% of a model, %s, %s are mapped", async (_, __, shape, form) => {
    const folder = newPath("model");
    writeRandomModel(folder, { shape, form, seed: 3 });
    for (const shift of [0, 8, 11]) {
      using model = await LanguageModel.load(device, shifted(folder, shift), mapped);
      expect(share(model)).toBeGreaterThan(0.95);
      expect(device.memory.mapped).toBeGreaterThan(model.weights.mapped);
    }
    expect(device.memory.mapped).toBe(0);
  });

  test.each([1, 3])("at least 95 %% of a model with a matrix an expert are mapped, in %d files", async (files) => {
    const folder = newPath("model");
    writeRandomModel(folder, { shape: { ...tiny, experts }, form: { dtype: "bf16" }, seed: 4 });
    const apart = separated(folder, files);
    using fused = await LanguageModel.load(device, folder, options);
    using copied = await LanguageModel.load(device, apart, options);
    using model = await LanguageModel.load(device, apart, mapped);
    expect(copied.weights).toEqual(fused.weights);
    expect(model.weights.mapped + model.weights.copied).toBe(copied.weights.copied);
    expect(share(model)).toBeGreaterThan(0.95);
    const expected = await logitsOf(fused);
    expect(await logitsOf(copied)).toEqual(expected);
    expect(await logitsOf(model)).toEqual(expected);
    expect(await model.identity()).toBe(await copied.identity());
  });

  test("only what is copied counts as progress", async () => {
    const seen: { bytes: number; total: number }[] = [];
    using model = await LanguageModel.load(device, join(golden, "olmo_hybrid"), { ...mapped, onProgress: (one) => seen.push(one) });
    expect(model.weights.copied).toBeGreaterThan(0); // three convolutions become one
    expect(seen.at(-1)).toMatchObject({ bytes: model.weights.copied, total: model.weights.copied });
  });
});

describe("windows", () => {
  const limit = 4294950912;
  test("few, aligned, over whole ranges, within the limit", () => {
    const random = new Random(5);
    for (let round = 0; round < 300; round++) {
      let at = random.below(40);
      const largest = 16384 * (1 + random.below(40));
      const ranges = Array.from({ length: 1 + random.below(30) }, () => {
        const range = { offset: at, bytes: random.below(round % 2 ? 300_000 : 20_000) };
        at += range.bytes + (random.uniform() < 0.1 ? 2 ** 20 + random.below(2 ** 21) : 0);
        return range;
      });
      const windows = windowsOver(ranges.toSorted(() => random.uniform() - 0.5), largest);
      for (const { offset, bytes } of windows) {
        expect(offset % 16384).toBe(0);
        expect(bytes).toBeGreaterThan(0);
        expect(bytes).toBeLessThanOrEqual(largest);
        expect(offset + bytes).toBeLessThanOrEqual(at);
      }
      for (const { offset, bytes } of ranges) {
        const fits = bytes > 0 && (offset % 16384) + bytes <= largest;
        const held = windows.some((one) => offset >= one.offset && offset + bytes <= one.offset + one.bytes);
        if (fits) expect(held).toBe(true);
      }
    }
  });
  test("a file of one piece has one window; gaps and the limit end windows", () => {
    expect(windowsOver([{ offset: 123, bytes: 10 }, { offset: 133, bytes: 7 }], limit)).toEqual([{ offset: 0, bytes: 140 }]);
    expect(windowsOver([{ offset: 0, bytes: 10 }, { offset: 2 ** 21, bytes: 7 }], limit)).toEqual([{ offset: 0, bytes: 10 }, { offset: 2 ** 21, bytes: 7 }]);
    const gigabytes = Array.from({ length: 5 }, (_, i) => ({ offset: 100 + i * 2 ** 30, bytes: 2 ** 30 }));
    expect(windowsOver(gigabytes, limit)).toEqual([{ offset: 0, bytes: 100 + 3 * 2 ** 30 }, { offset: 3 * 2 ** 30, bytes: 100 + 2 ** 31 }]);
    expect(windowsOver([{ offset: 8, bytes: limit }], limit)).toEqual([]);
    expect(windowsOver([{ offset: 8, bytes: 0 }], limit)).toEqual([]);
  });
});

describe("limits", () => {
  test("a model that does not fit is refused before its first byte, with both numbers", async () => {
    let pieces = 0;
    const count = { ...options, states: 1, pages: { count: 2 ** 20, tokens: 64 }, onProgress: () => pieces++ };
    const config = { layers: ["gatedDelta", "attention"], maxPositions: 100_000 } as const;
    const sizes = { mixer: { keyHeads: 1, valueHeads: 1, keyDim: 128, valueDim: 128, convWidth: 4 }, attention: { kvHeads: 8, headDim: 256 } };
    const refusal = (weights: { mapped: number; copied: number }, most: number) => {
      try {
        expectFits("load", { ...config, ...sizes } as never, { states: 2 }, weights, most);
      } catch (error) {
        return error as GatedDeltaError;
      }
      return undefined;
    };
    expect(refusal({ mapped: 0, copied: 5e9 }, 4e9)).toMatchObject({ code: "out-of-memory", expected: expect.stringContaining("weights 5000000000"), received: "4000000000 bytes" });
    expect(refusal({ mapped: 5e9, copied: 1e6 }, 4e9)).toBeUndefined();
    expect(refusal({ mapped: 5e9, copied: 5e9 }, 4e9)!.expected).toContain("5000000000 mapped, which need none");
    for (const weights of ["copied", "mapped"] as const) {
      const error = await rejection(LanguageModel.load(device, join(golden, "qwen3_5-bf16"), { ...count, weights }));
      expect(error).toMatchObject({ code: "out-of-memory", argument: "pages", received: expect.stringMatching(/^\d+ bytes$/) });
      expect((error as GatedDeltaError).expected).toMatch(/^memory for \d+ bytes \(weights \d+, (?:and \d+ mapped, which need none, )?states \d+, keys and values \d+\)$/);
    }
    expect(pieces).toBe(0);
    expect(device.memory).toEqual({ own: 0, mapped: 0 });
  });

  test("however few descriptors are left, a load succeeds or ends in a FileError, and leaves nothing", () => {
    const { ok, text } = runProgram({}, `
      import { Device } from "ROOTlib/index.ts";
      import { LanguageModel } from "ROOTlib/model.ts";
      import { closeSync, openSync } from "node:fs";
      const device = Device.open("cpu");
      const folder = "ROOTtest/golden/models/qwen3_5-f32-sharded-tied";
      const options = { states: 1, pages: 4, weights: "mapped" };
      (await LanguageModel.load(device, folder, options))[Symbol.dispose]();
      const taken = [];
      try { for (;;) taken.push(openSync("/dev/null", "r")); } catch {}
      const ends = [];
      for (let free = 0; free < 26; free++) {
        try {
          const model = await LanguageModel.load(device, folder, options);
          ends.push("loaded");
          model[Symbol.dispose]();
        } catch (error) {
          ends.push(error.name);
        }
        const { own, mapped } = device.memory;
        if (own + mapped !== 0) throw new Error("left: " + own + " " + mapped);
        closeSync(taken.pop());
      }
      console.log(ends.join(" "));
    `);
    expect(text).toMatch(/^(?:FileError )+(?:loaded ?)+\n$/);
    expect(ok).toBe(true);
  });

  test.each(["weights: 'other'", "weights: true", "weights: null"])("%s is refused", async (option) => {
    const value = option.includes("other") ? "other" : option.includes("true") ? true : null;
    const error = await rejection(LanguageModel.load(device, tinyFolder(), { ...options, weights: value as never }));
    expect(error).toMatchObject({ code: "invalid-argument", argument: "weights" });
  });

  test("a closed device maps nothing", async () => {
    const closed = Device.open("cpu");
    closed.close();
    expect(await rejection(LanguageModel.load(closed, tinyFolder(), mapped))).toMatchObject({ code: "disposed" });
  });

  test("a model of a closed device is freed, mapped or not", async () => {
    const other = Device.open("cpu");
    const model = await LanguageModel.load(other, tinyFolder(), mapped);
    other.close();
    expect(await rejection((async () => model.run([{ sequence: model.sequence(), tokens: [1] }]))())).toMatchObject({ code: "disposed" });
    model[Symbol.dispose]();
  });
});

test("tensors without elements, and those of other parts, are not in the way", async () => {
  const parts = readModel(tinyFolder());
  const none = zeros("F32", [0, 8]);
  const folder = writeChanged(newPath("model"), parts, ({ tensors }) => {
    tensors["mtp.empty.weight"] = none;
    tensors["model.visual.patch.weight"] = zeros("BF16", [5, 3]);
  });
  using model = await LanguageModel.load(device, folder, mapped);
  using plain = await LanguageModel.load(device, tinyFolder(), options);
  expect(model.skipped.toSorted()).toEqual(["model.visual.patch.weight", "mtp.empty.weight"]);
  expect(model.weights.mapped + model.weights.copied).toBe(plain.weights.copied);
  expect(await logitsOf(model)).toEqual(await logitsOf(plain));
});

const onLinux = test.skipIf(process.platform !== "linux");

onLinux("a Worker that ends leaves no window", async () => {
  const folder = ownCopy(tinyFolder());
  const program = `
    import { Device } from "ROOT/lib/index.ts";
    import { LanguageModel } from "ROOT/lib/model.ts";
    const device = Device.open("cpu");
    const model = await LanguageModel.load(device, FOLDER, { states: 1, pages: 4, weights: "mapped" });
    const sequence = model.sequence();
    await model.run([{ sequence, tokens: [1, 2, 3] }]);
    postMessage("mapped");
    setInterval(() => model.run([{ sequence, tokens: [1], logits: "none" }]), 1);
  `.replaceAll("ROOT", join(import.meta.dir, "../..")).replace("FOLDER", JSON.stringify(folder));
  const path = newPath("worker.ts");
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, program);
  const worker = new Worker(path);
  await new Promise((resolve, reject) => {
    worker.onmessage = resolve;
    worker.onerror = (event) => reject(new Error(event.message));
  });
  const isMapped = () => readFileSync("/proc/self/maps", "utf8").includes(folder);
  expect(isMapped()).toBe(true);
  worker.terminate();
  for (let i = 0; i < 1000 && isMapped(); i++) await Bun.sleep(10);
  expect(isMapped()).toBe(false);
});

onLinux("a load takes little more memory than the weights, or than the copied ones", () => {
  const folder = writeChanged(newPath("model"), readModel(tinyFolder()), ({ tensors, config }) => {
    config["vocab_size"] = 1_000_000;
    for (const name of ["model.embed_tokens.weight", "lm_head.weight"]) tensors[name] = zeros("F32", [1_000_000, tinyModel.hidden]);
  });
  const peakOf = (weights: "copied" | "mapped") => {
    const { text } = runProgram({}, `
      import { Device } from "ROOTlib/index.ts";
      import { loadModelWeights } from "ROOTlib/model/load-weights.ts";
      import { readFileSync } from "node:fs";
      const of = (name) => 1024 * Number(new RegExp(name + ":[^0-9]+([0-9]+) kB").exec(readFileSync("/proc/self/status", "utf8"))[1]);
      const device = Device.open("cpu");
      (await loadModelWeights(device, "ROOTtest/golden/models/qwen3_5-bf16", { weights: "${weights}" })).weights[Symbol.dispose]();
      Bun.gc(true);
      const before = of("VmRSS");
      const { bytes } = await loadModelWeights(device, ${JSON.stringify(folder)}, { weights: "${weights}" });
      console.log(JSON.stringify({ ...bytes, growth: of("VmHWM") - before }));
    `);
    return JSON.parse(text.trim().split("\n").at(-1)!) as { mapped: number; copied: number; growth: number };
  };
  const copied = peakOf("copied");
  expect(copied.copied).toBeGreaterThan(3e8);
  expect(copied.growth).toBeLessThan(1.05 * copied.copied + 2 ** 26);
  const inFiles = peakOf("mapped");
  expect(inFiles.mapped).toBeGreaterThan(0.99 * copied.copied);
  expect(inFiles.growth).toBeLessThan(1.05 * inFiles.copied + 2 ** 26);
});

onLinux("two processes share the memory of one file", async () => {
  const folder = newPath("model");
  const shape = { ...tiny, hidden_size: 512, intermediate_size: 2048, vocab_size: 4096, num_hidden_layers: 4 };
  writeRandomModel(folder, { shape, form: { dtype: "bf16" }, seed: 1 });
  const program = (weights: string) => `
    import { Device } from "ROOTlib/index.ts";
    import { LanguageModel } from "ROOTlib/model.ts";
    const device = Device.open("cpu");
    const model = await LanguageModel.load(device, ${JSON.stringify(folder)}, { states: 1, pages: 4, weights: "${weights}" });
    const sequence = model.sequence();
    await model.run([{ sequence, tokens: Array.from({ length: 40 }, (_, i) => 100 * i) }]);
    console.log(model.weights.mapped);
    await Bun.stdin.text();
    process.exit(0);
  `;
  const root = JSON.stringify(join(import.meta.dir, "../..", "/")).slice(1, -1);
  const start = async () => {
    const child = Bun.spawn([process.execPath, "--eval", program("mapped").replaceAll("ROOT", root)], { stdin: "pipe", stdout: "pipe" });
    const reader = child.stdout.getReader();
    const bytes = Number(new TextDecoder().decode((await reader.read()).value));
    return { child, bytes };
  };
  /** Resident and proportional bytes of the file in a process. */
  const memoryOf = (id: number) => {
    const sums = { rss: 0, pss: 0 };
    let inFile = false;
    for (const line of readFileSync(`/proc/${id}/smaps`, "utf8").split("\n")) {
      if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) inFile = line.includes(folder);
      const [, name, kilobytes] = /^(Rss|Pss): +(\d+) kB/.exec(line) ?? [];
      if (inFile && name !== undefined) sums[name === "Rss" ? "rss" : "pss"] += 1024 * Number(kilobytes);
    }
    return sums;
  };
  const [one, two] = [await start(), await start()];
  try {
    const both = [memoryOf(one.child.pid), memoryOf(two.child.pid)] as const;
    for (const { rss, pss } of both) {
      expect(rss).toBeGreaterThan(0.5 * one.bytes);
      expect(pss).toBeLessThan(0.6 * rss); // half of the memory that both have read
    }
    expect(both[0].pss + both[1].pss).toBeLessThan(1.1 * one.bytes);
  } finally {
    for (const { child } of [one, two]) child.kill();
    await Promise.all([one.child.exited, two.child.exited]);
  }
});
