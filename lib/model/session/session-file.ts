/**
 * A session on disk: a safetensors file with its tokens, and for the tokens that were read each mixer's states
 * (`states.N.state`, `states.N.conv`), each attention layer's keys and values `[kvHeads, tokens, headDim]` (`pages.N.keys`,
 * `pages.N.values`), and the last logits if they are known. The metadata holds the model's identity and a SHA-256 over the
 * metadata and all tensors.
 */
import { createHash } from "node:crypto";
import type { Hash } from "node:crypto";
import { DisposedError, FileError, describe } from "../../errors.ts";
import type { StateKind } from "../../ops/layer-states.ts";
import { fileDTypes, openSafetensors } from "../../checkpoint/safetensors.ts";
import type { SafetensorsFile, TensorToWrite } from "../../checkpoint/safetensors.ts";
import { floatDType } from "../../checkpoint/dtypes.ts";
import { inChunks, piecesOf, writeSafetensorsAsync } from "../../checkpoint/write.ts";
import { turns } from "../../turns.ts";
import { kindsOf } from "../../states/pool-shape.ts";
import { dtypes } from "../../tensor/dtype.ts";
import type { ArrayOfDType, FloatDType } from "../../tensor/dtype.ts";
import type { LanguageModel } from "../language-model.ts";
import { memoryOf } from "../model-memory.ts";
import { expectSnapshot } from "../snapshot.ts";
import type { Elements, Pieces, SequenceSnapshot, SequenceViews } from "../snapshot.ts";

/** The contents of a session's file. */
export interface StoredSession {
  readonly tokens: Int32Array;
  readonly messageEnds: Int32Array;
  /** Logits after the last token. */
  readonly logits: Float32Array | undefined;
  /** The state after the tokens that were read; undefined if none was. */
  readonly read: SequenceSnapshot | undefined;
}

/** A session to write; its state may lie in pieces in the model's memory. */
export interface SessionToWrite extends Omit<StoredSession, "read"> {
  readonly read: SequenceSnapshot | SequenceViews | undefined;
}

const formatName = "gated-delta-session";
/** Version 1 hashed only some of the model's bytes, so other models could match. */
const formatVersion = "2";
const checksumKey = "sha256";

/** Writes a session in the background. If the process is killed meanwhile, an existing file stays intact. */
export async function writeSession(op: string, path: string, model: LanguageModel, { tokens, messageEnds, logits, read }: SessionToWrite): Promise<void> {
  const tensors = new Map<string, TensorToWrite>();
  const integers = (name: string, data: Int32Array) => tensors.set(name, { dtype: "I32", shape: [data.length], data });
  const floats = (name: string, elements: Elements | Pieces) => {
    const pieces = "pieces" in elements ? elements.pieces : [elements.data];
    tensors.set(name, { dtype: fileDTypes[elements.dtype], shape: [pieces.reduce((sum, { length }) => sum + length, 0)], data: pieces });
  };
  integers("tokens", tokens);
  integers("message_ends", messageEnds);
  if (logits !== undefined) floats("logits", { dtype: "f32", data: logits as ArrayOfDType["f32"] });
  for (const [layer, kinds] of read?.states.entries() ?? []) {
    for (const [kind, elements] of Object.entries(kinds)) floats(`states.${layer}.${kind}`, elements);
  }
  for (const [layer, { keys, values }] of read?.pages.entries() ?? []) {
    floats(`pages.${layer}.keys`, keys);
    floats(`pages.${layer}.values`, values);
  }
  const expectModel = (): void => {
    if (model.disposed) throw new DisposedError({ op, expected: "a model that is not disposed before the file is written", received: "a disposed one" });
  };
  const metadata = { format: formatName, version: formatVersion, model: await memoryOf(model).identity.get(op), read: String(read?.tokens ?? 0) };
  const checksum = beginChecksum(metadata);
  const turn = turns();
  for (const [name, tensor] of inOrder(tensors)) {
    expectModel();
    nameInChecksum(checksum, name, tensor.dtype, tensor.shape);
    for (const chunk of inChunks(piecesOf(tensor), expectModel)) {
      checksum.update(chunk);
      await turn();
    }
  }
  expectModel();
  await writeSafetensorsAsync(path, tensors, { ...metadata, [checksumKey]: checksum.digest("hex") }, op, expectModel);
}

/**
 * Reads, in the background, a session that was written by this model or by another model with the same weights and the
 * same dtypes of states and pages.
 *
 * @throws {FileError} for any other file, and for a damaged one.
 */
export async function readSession(op: string, path: string, model: LanguageModel): Promise<StoredSession> {
  using file = openSafetensors(path, op);
  const reader = new Reader(op, path, file);
  reader.expect("format", formatName);
  reader.expectVersion();
  reader.expect("model", await memoryOf(model).identity.get(op));
  await reader.read();
  const { vocabSize, maxPositions } = model.config;
  const tokens = reader.integers("tokens", 0, vocabSize - 1);
  if (tokens.length > maxPositions) throw reader.bad(`at most ${maxPositions} tokens`, `${tokens.length}`);
  const messageEnds = reader.integers("message_ends", 1, tokens.length);
  if (messageEnds.some((end, i) => i > 0 && end <= messageEnds[i - 1]!)) throw reader.bad("ascending message_ends", describe([...messageEnds]));
  const logits = file.has("logits") ? reader.floats("logits", "f32") : undefined;
  if (logits !== undefined && logits.data.length !== vocabSize) throw reader.bad(`${vocabSize} logits`, `${logits.data.length}`);
  const count = file.metadata.get("read") ?? "";
  const read = Number(count);
  if (!/^(?:0|[1-9]\d{0,9})$/.test(count) || read > tokens.length) throw reader.bad(`metadata read of at most ${tokens.length} tokens`, describe(count));
  const stored = { tokens, messageEnds, logits: logits?.data as Float32Array | undefined };
  if (read === 0) return { ...stored, read: undefined };
  const snapshot = reader.snapshot(model, read);
  try {
    expectSnapshot(op, model, snapshot);
  } catch (cause) {
    throw reader.bad("states, keys and values of the model's sizes and dtypes", cause instanceof Error ? cause.message : "others");
  }
  return { ...stored, read: snapshot };
}

/** Bytes that are read at a time. */
const readBytes = 2 ** 20;

class Reader {
  readonly #op: string;
  readonly #path: string;
  readonly #file: SafetensorsFile;
  /** The tensors' bytes, filled by {@link read}. */
  readonly #data = new Map<string, Uint8Array<ArrayBuffer>>();

  constructor(op: string, path: string, file: SafetensorsFile) {
    this.#op = op;
    this.#path = path;
    this.#file = file;
  }

  bad(expected: string, received: string): FileError {
    return new FileError(this.#path, { op: this.#op, expected, received });
  }

  expect(key: string, expected: string): void {
    const found = this.#file.metadata.get(key);
    const what = key === "model" ? "a session of this model" : `metadata ${key} ${describe(expected)}`;
    if (found !== expected) throw this.bad(what, key === "model" && found !== undefined ? "one of another model" : describe(found));
  }

  expectVersion(): void {
    const found = this.#file.metadata.get("version");
    if (found === formatVersion) return;
    const expected = `a session of version ${formatVersion} of the format`;
    if (found === undefined || !/^[1-9]\d{0,5}$/.test(found)) throw this.bad(expected, `version ${describe(found)}`);
    const how = Number(found) < Number(formatVersion)
      ? "written by an earlier gated-delta without the model's identity: start the session again and save it again"
      : "written by a later gated-delta";
    throw this.bad(expected, `one of version ${found}, ${how}`);
  }

  /** Reads all tensors, and compares their checksum with the file's. */
  async read(): Promise<void> {
    const { [checksumKey]: stored, ...metadata } = Object.fromEntries(this.#file.metadata);
    const checksum = beginChecksum(metadata);
    const turn = turns();
    for (const name of [...this.#file.names].sort()) {
      const { dtype, shape, bytes } = this.#file.info(name);
      nameInChecksum(checksum, name, dtype, shape);
      const data = new Uint8Array(bytes);
      for (let at = 0; at < bytes; at += readBytes) {
        const chunk = data.subarray(at, at + readBytes);
        await this.#file.readSliceAsync(name, at, chunk);
        checksum.update(chunk);
        await turn();
      }
      this.#data.set(name, data);
    }
    const found = checksum.digest("hex");
    if (stored !== found) throw this.bad(`contents with the file's checksum ${describe(stored)}`, found);
  }

  integers(name: string, least: number, most: number): Int32Array {
    const { dtype } = this.#file.info(name);
    if (dtype !== "I32") throw this.bad(`${name} of dtype I32`, dtype);
    const numbers = new Int32Array(this.#data.get(name)!.buffer);
    const wrong = numbers.find((number) => number < least || number > most);
    if (wrong !== undefined) throw this.bad(`${name} of numbers in ${least}..${most}`, `${wrong}`);
    return numbers;
  }

  floats(name: string, only?: FloatDType): Elements {
    const dtype = floatDType(this.#file.info(name).dtype);
    if (dtype === undefined || (only !== undefined && dtype !== only)) {
      throw this.bad(`${name} of dtype ${only ?? "f32, f16 or bf16"}`, this.#file.info(name).dtype);
    }
    const { buffer, length } = this.#data.get(name)!;
    return { dtype, data: dtypes[dtype].view(buffer, 0, length / dtypes[dtype].bytes) };
  }

  snapshot(model: LanguageModel, tokens: number): SequenceSnapshot {
    const { pool, pages } = memoryOf(model);
    const states = Array.from({ length: pool.layers }, (_, layer) =>
      Object.fromEntries(kindsOf(pool.shape).map((kind) => [kind, this.floats(`states.${layer}.${kind}`)])) as Partial<Record<StateKind, Elements>>,
    );
    return {
      tokens,
      states,
      pages: pages.layers.map((_, layer) => ({ keys: this.floats(`pages.${layer}.keys`), values: this.floats(`pages.${layer}.values`) })),
    };
  }
}

function beginChecksum(metadata: Readonly<Record<string, string>>): Hash {
  return createHash("sha256").update(JSON.stringify(Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1))));
}

/** Adds a tensor's name, dtype and shape to the checksum; its bytes follow. */
function nameInChecksum(checksum: Hash, name: string, dtype: string, shape: readonly number[]): void {
  checksum.update(JSON.stringify([name, dtype, shape]));
}

function inOrder(tensors: ReadonlyMap<string, TensorToWrite>): [string, TensorToWrite][] {
  return [...tensors].sort(([a], [b]) => (a < b ? -1 : 1));
}
