/**
 * Random changes to GGUF files: a machine of support/schedules.ts. A changed file is refused with a typed error, or the tensors'
 * places, shapes and bytes are those that a plain reader finds, and the model runs.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openGguf } from "../../lib/checkpoint/gguf/gguf-checkpoint.ts";
import { checkpointName } from "../../lib/checkpoint/gguf/names.ts";
import { GatedDeltaError } from "../../lib/index.ts";
import type { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import { ggmlFormats } from "../reference/gguf.ts";
import type { GgmlFormat } from "../reference/gguf.ts";
import { ggufBytes } from "../support/gguf-writer.ts";
import { Random } from "../support/random.ts";
import { Difference, anyCalls } from "../support/schedules.ts";
import type { Call, Counts, ScheduleMachine } from "../support/schedules.ts";
import { tinyGguf } from "../support/tiny-gguf.ts";
import { readPlain } from "./plain-reader.ts";
import type { PlainFile } from "./plain-reader.ts";

/** The codes of errors that a wrong file may give. */
const typed = ["file", "unsupported", "dtype", "out-of-memory", "shape"];

/** Numbers at which checks could be wrong. */
const numbers = [0n, 1n, 2n, 3n, 7n, 8n, 31n, 33n, 64n, 2n ** 16n, 2n ** 31n - 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 40n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 61n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n];

/** The number of programs until the memory of compiled code and of the first models is allocated. */
const warmUp = 100;

/** Bytes that the process may grow by, in addition to the file's. */
const mostMemory = 64 * 2 ** 20;

type Change = (bytes: Uint8Array<ArrayBuffer>, random: Random, base: PlainFile) => Uint8Array<ArrayBuffer>;

function put(bytes: Uint8Array<ArrayBuffer>, at: number, size: 4 | 8, random: Random): Uint8Array<ArrayBuffer> {
  if (at + size > bytes.length) return bytes;
  const view = new DataView(bytes.buffer);
  const old = size === 8 ? view.getBigUint64(at, true) : BigInt(view.getUint32(at, true));
  const value = random.below(3) === 0 ? old + BigInt(random.below(5) - 2) : random.pick(numbers);
  if (size === 8) view.setBigUint64(at, BigInt.asUintN(64, value), true);
  else view.setUint32(at, Number(BigInt.asUintN(32, value)), true);
  return bytes;
}

const inHeader = (bytes: Uint8Array, random: Random, base: PlainFile) => random.below(Math.max(1, Math.min(bytes.length, base.dataStart)));

const changes = {
  field: (bytes, random, base) => put(bytes, ...random.pick(base.fields), random),
  bit: (bytes, random, base) => {
    const at = inHeader(bytes, random, base);
    bytes[at]! ^= 1 << random.below(8);
    return bytes;
  },
  number: (bytes, random, base) => put(bytes, inHeader(bytes, random, base), random.pick([4, 8] as const), random),
  cut: (bytes, random) => bytes.slice(0, random.below(bytes.length + 1)),
  lengthen: (bytes, random) => {
    const longer = new Uint8Array(bytes.length + 1 + random.below(64));
    longer.set(bytes);
    return longer;
  },
  remove: (bytes, random, base) => {
    const at = inHeader(bytes, random, base);
    const shorter = bytes.slice(0, Math.max(0, bytes.length - 1 - random.below(16)));
    if (at < shorter.length) shorter.set(bytes.subarray(at + bytes.length - shorter.length), at);
    return shorter;
  },
  repeat: (bytes, random, base) => {
    const [from, to] = [inHeader(bytes, random, base), inHeader(bytes, random, base)];
    bytes.copyWithin(to, from, Math.min(from + 1 + random.below(64), bytes.length));
    return bytes;
  },
  data: (bytes, random, base) => {
    for (let i = 0; i < 8 && bytes.length > base.dataStart; i++) bytes[base.dataStart + random.below(bytes.length - base.dataStart)] = random.below(256);
    return bytes;
  },
} as const satisfies Readonly<Record<string, Change>>;

type Name = keyof typeof changes;
const weights: Readonly<Record<Name, number>> = { field: 8, bit: 4, number: 2, cut: 1, lengthen: 1, remove: 1, repeat: 1, data: 1 };

/** A file that is changed. */
interface Base {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly plain: PlainFile;
}

function baseOf(blocks: boolean): Base {
  const bytes = ggufBytes(tinyGguf(1, blocks));
  return { bytes, plain: readPlain(bytes) };
}

/** One file and its changes. */
class Changed implements Disposable {
  readonly lines: string[] = [];
  bytes: Uint8Array<ArrayBuffer>;
  readonly path: string;
  readonly counts: Counts;
  readonly base: PlainFile;

  constructor({ bytes, plain }: Base, folder: string, counts: Counts) {
    mkdirSync(folder, { recursive: true });
    this.bytes = bytes.slice();
    this.base = plain;
    this.path = join(folder, "model.gguf");
    this.counts = counts;
  }

  [Symbol.dispose](): void {}
}

export class GgufFiles implements ScheduleMachine<Call<Name>, Changed> {
  readonly unit = "program";
  readonly reference = "the model";
  readonly repeatable = true;
  readonly #device: Device;
  /** Files with floats, and with ggml's types of blocks. */
  readonly #bases = { floats: baseOf(false), blocks: baseOf(true) };
  #programs = 0;
  #baseline = 0;

  constructor(device: Device) {
    this.#device = device;
  }

  make(random: Random): readonly Call<Name>[] {
    return anyCalls(random, weights, 1 + random.below(3));
  }

  begin(seed: number, folder: string, counts: Counts): Changed {
    const kind = new Random(seed).below(2) === 0 ? "floats" : "blocks";
    counts.add(`files of ${kind}`);
    return new Changed(this.#bases[kind], folder, counts);
  }

  step(file: Changed, { name, seed }: Call<Name>): void {
    file.bytes = changes[name](file.bytes, new Random(seed), file.base);
    file.lines.push(`${name} ${seed}`);
    file.counts.add(`changes by ${name}`);
  }

  async end(file: Changed): Promise<void> {
    await this.#check(file);
    // The largest memory so far: a refused file must not have taken any before the refusal.
    const { maxRSS } = process.resourceUsage();
    if (++this.#programs === warmUp) this.#baseline = maxRSS;
    if (this.#programs % 100 === 0) Bun.gc(true);
    const grown = (maxRSS - this.#baseline) * 1024;
    if (this.#programs > warmUp && grown > mostMemory + file.bytes.length) throw new Difference(`the process grew by ${grown} bytes`);
  }

  async #check({ path, bytes, counts }: Changed): Promise<void> {
    writeFileSync(path, bytes);
    try {
      expectRead(path, bytes);
    } catch (error) {
      return this.#refused("refused when opened", error, counts);
    }
    try {
      using model = await LanguageModel.load(this.#device, path, { states: 1, pages: 1 });
      using sequence = model.sequence();
      await model.run([{ sequence, tokens: [3, model.config.vocabSize - 1] }]);
      counts.add("models that ran");
      if (!model.text.hasTokenizer) return counts.add("models without a tokenizer");
      model.text.encode("hello <|im_end|>");
      model.text.chat([{ role: "user", content: "hi" }]);
      counts.add("models with a tokenizer and a template");
    } catch (error) {
      this.#refused("refused when loaded or used", error, counts);
    }
  }

  #refused(what: string, error: unknown, counts: Counts): void {
    if (error instanceof Difference) throw error;
    // A template may be changed into one that refuses the messages, or writes none of the tokens.
    const ok = error instanceof GatedDeltaError && (typed.includes(error.code) || (error.code === "invalid-argument" && /template|tokens/.test(error.message)));
    if (!ok) throw error;
    // Jinja's own words about a template may be among them.
    if (!error.message.startsWith("chat: ") && /TypeError|RangeError|\bundefined\b|\[object|NaN/.test(error.message)) throw new Difference(`a message about something else: ${error.message}`);
    counts.add(`${what} (${error.code})`);
  }

  describe({ lines }: Changed): readonly string[] {
    return lines;
  }
}

/** Opens a file and compares every tensor with the plain reader's result. */
function expectRead(path: string, bytes: Uint8Array): void {
  using file = openGguf(path);
  const plain = readPlain(bytes);
  const all = plain.values.get("qwen35.block_count") as number;
  const layers = all - ((plain.values.get("qwen35.nextn_predict_layers") as number | undefined) ?? 0);
  if (file.names.length !== plain.tensors.size) throw new Difference(`${file.names.length} tensors, not ${plain.tensors.size}`);
  for (const [name, { sizes, type, position }] of plain.tensors) {
    const known = checkpointName(name, { layers, all }, () => false);
    if (known === undefined) throw new Difference(`${name}: a tensor of no part`);
    const { shape, bytes: length } = file.info(known);
    const format = Object.values<GgmlFormat>(ggmlFormats).find((one) => one.type === type)!;
    const expected = (sizes.reduce((product, size) => product * size, 1) / format.elements) * format.bytes;
    if (length !== expected || shape[0] !== (sizes.at(-1) ?? shape[0])) throw new Difference(`${name}: ${length} bytes [${shape}], not ${expected} bytes of [${sizes}]`);
    if (Buffer.compare(file.read(known), bytes.subarray(position, position + length)) !== 0) throw new Difference(`${name}: other bytes`);
  }
}
