/**
 * A session on disk: a checked file with its tokens and, for the tokens that the model has read, each mixer's states
 * (`states.N.state`, `states.N.conv`), each attention layer's keys and values `[kvHeads, tokens, headDim]` (`pages.N.keys`,
 * `pages.N.values`), and the last logits if they are known. `generated` has the bounds of the ranges of generated tokens, which give
 * every token's role; `dialogue` has the messages as JSON, if they describe the tokens; `held_text` has generated text that was held
 * back. The metadata hold the model's identity.
 */
import { DisposedError, describe } from "../../errors.ts";
import type { StateKind } from "../../ops/layer-states.ts";
import { CheckedFile, writeCheckedAsync } from "../../checkpoint/checked-file.ts";
import type { CheckedFormat, CheckedTensors } from "../../checkpoint/checked-file.ts";
import { fileDTypes } from "../../checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../checkpoint/safetensors.ts";
import { loadedInfo } from "../../native/library.ts";
import { kindsOf } from "../../states/pool-shape.ts";
import type { ArrayOfDType, FloatDType } from "../../tensor/dtype.ts";
import type { LanguageModel } from "../language-model.ts";
import { memoryOf } from "../model-memory.ts";
import { dialogueText, readDialogue } from "./dialogue-file.ts";
import type { StoredDialogue } from "./dialogue-file.ts";
import type { TextEnd } from "./generated-text.ts";
import { expectSnapshot, tokenPieces } from "../snapshot.ts";
import type { Elements, Pieces, SequenceSnapshot, SequenceViews } from "../snapshot.ts";

/** A session as a file holds it. */
export interface StoredSession {
  readonly tokens: Int32Array;
  readonly messageEnds: Int32Array;
  /** The bounds of the ranges of generated tokens: the first position of each range, then the one after its last. */
  readonly generated: Int32Array;
  /** The session's messages; undefined if they do not describe its tokens. */
  readonly dialogue: StoredDialogue | undefined;
  readonly textEnd: TextEnd;
  /** Logits after the last token. */
  readonly logits: Float32Array | undefined;
  /** States, keys and values; undefined where nothing was read. */
  readonly read: SequenceSnapshot | undefined;
  /** Whether reading the tokens again gives the same bits: true for a file that a model like this one has written. */
  readonly recomputable: boolean;
}

/** A session to write: states, keys and values may be in pieces in the model's memory. */
export interface SessionToWrite extends Omit<StoredSession, "read"> {
  readonly read: SequenceSnapshot | SequenceViews | undefined;
}

const sessionFormat: CheckedFormat = {
  name: "gated-delta-session",
  // Files of version 1 hold a hash of some of the model's bytes, which other models can have too; files of version 2 hold no messages.
  version: "3",
  noun: "a session",
  earlier: "without all that a session has: begin the session again, and save it again",
  entries: "interleaved",
};

/** The dtypes of states, keys and values. */
const elementDTypes: readonly FloatDType[] = ["f32", "f16", "bf16"];

/** Writes a session in the background. If the process is killed meanwhile, an existing file stays intact. */
export async function writeSession(op: string, path: string, model: LanguageModel, session: SessionToWrite): Promise<void> {
  const { tokens, messageEnds, generated, dialogue, textEnd, logits, read, recomputable } = session;
  const tensors = new Map<string, TensorToWrite>();
  const integers = (name: string, data: Int32Array) => tensors.set(name, { dtype: "I32", shape: [data.length], data });
  const floats = (name: string, elements: Elements | Pieces) => {
    const pieces = "pieces" in elements ? elements.pieces : [elements.data];
    tensors.set(name, { dtype: fileDTypes[elements.dtype], shape: [pieces.reduce((sum, { length }) => sum + length, 0)], data: pieces });
  };
  integers("tokens", tokens);
  integers("message_ends", messageEnds);
  integers("generated", generated);
  const text = (name: string, value: string) => {
    const data = new TextEncoder().encode(value);
    tensors.set(name, { dtype: "U8", shape: [data.length], data });
  };
  if (dialogue !== undefined) text("dialogue", dialogueText(dialogue));
  if (textEnd.held !== "") text("held_text", textEnd.held);
  if (logits !== undefined) floats("logits", { dtype: "f32", data: logits as ArrayOfDType["f32"] });
  for (const [layer, kinds] of read?.states.entries() ?? []) {
    for (const [kind, elements] of Object.entries(kinds)) floats(`states.${layer}.${kind}`, elements);
  }
  for (const [layer, { keys, values }] of read?.pages.entries() ?? []) {
    const { kvHeads } = model.config.attention;
    floats(`pages.${layer}.keys`, "pieces" in keys ? keys : tokenPieces(keys, kvHeads));
    floats(`pages.${layer}.values`, "pieces" in values ? values : tokenPieces(values, kvHeads));
  }
  const expectModel = (): void => {
    if (model.disposed) throw new DisposedError({ op, expected: "a model that is not disposed before the file is written" });
  };
  const kernels = recomputable ? { kernels: kernelsOf(model) } : {};
  const metadata = { model: await memoryOf(model).identity.get(op), read: String(read?.tokens ?? 0), replaced: String(textEnd.replaced), ...kernels };
  const inOrder = new Map([...tensors].sort(([a], [b]) => (a < b ? -1 : 1)));
  await writeCheckedAsync(op, path, sessionFormat, metadata, inOrder, expectModel);
}

/** Whether a file is a session, of any model. */
export function isSessionFile(path: string): boolean {
  try {
    new CheckedFile("session.save", path, sessionFormat)[Symbol.dispose]();
    return true;
  } catch {
    return false;
  }
}

/**
 * Reads, in the background, a session that was written by this model or by another model with the same weights and the
 * same dtypes of states and pages.
 *
 * @throws {FileError} for any other file, and for a damaged one.
 */
export async function readSession(op: string, path: string, model: LanguageModel): Promise<StoredSession> {
  using file = new CheckedFile(op, path, sessionFormat);
  const identity = file.source.metadata.get("model");
  if (identity !== (await memoryOf(model).identity.get(op))) {
    throw file.bad("a session of this model", identity === undefined ? "one without a model's identity" : "one of another model");
  }
  const tensors = await file.readAll();
  if (model.disposed) throw new DisposedError({ op, expected: "a model that is not disposed" });
  const { vocabSize, maxPositions } = model.config;
  const tokens = tensors.integers("tokens", 0, vocabSize - 1);
  if (tokens.length > maxPositions) throw file.bad(`at most ${maxPositions} tokens`, `${tokens.length}`);
  const messageEnds = tensors.integers("message_ends", 1, tokens.length);
  const generated = tensors.integers("generated", 0, tokens.length);
  if (generated.length % 2 !== 0) throw file.bad("pairs of numbers in generated", `${generated.length}`);
  for (const [name, numbers] of Object.entries({ message_ends: messageEnds, generated })) {
    if (numbers.some((number, i) => i > 0 && number <= numbers[i - 1]!)) throw file.bad(`${name} that ascend`, describe([...numbers]));
  }
  const dialogue = file.source.has("dialogue") ? tensors.text("dialogue", (text) => readDialogue(op, model, text, tokens.length)) : undefined;
  const held = file.source.has("held_text") ? tensors.text("held_text", (text) => text) : "";
  const textEnd = { held, replaced: file.source.metadata.get("replaced") === "true" };
  const logits = file.source.has("logits") ? tensors.floats("logits", ["f32"]).data : undefined;
  if (logits !== undefined && logits.length !== vocabSize) throw file.bad(`${vocabSize} logits`, `${logits.length}`);
  const read = file.count("read", tokens.length);
  const stored = { tokens, messageEnds, generated, dialogue, textEnd, logits, recomputable: file.source.metadata.get("kernels") === kernelsOf(model) };
  if (read === 0) return { ...stored, read: undefined };
  const snapshot = snapshotIn(tensors, model, read);
  try {
    expectSnapshot(op, model, snapshot);
  } catch (cause) {
    throw file.bad("states, keys and values of the model's sizes and dtypes", cause instanceof Error ? cause.message : "others");
  }
  return { ...stored, read: snapshot };
}

/** The kernels and dtype of a model: if these and the identity are the same, results have the same bits. */
function kernelsOf(model: LanguageModel): string {
  const { device, dtype } = model;
  const byRole = memoryOf(model).byRole ? ["matrix prompts"] : [];
  return [device.backend, device.name, device.isa, dtype, ...byRole, loadedInfo().version].join(", ");
}

function snapshotIn(tensors: CheckedTensors, model: LanguageModel, tokens: number): SequenceSnapshot {
  const { pool, pages } = memoryOf(model);
  const floats = (name: string): Elements => tensors.floats(name, elementDTypes);
  const states = Array.from({ length: pool.layers }, (_, layer) =>
    Object.fromEntries(kindsOf(pool.shape).map((kind) => [kind, floats(`states.${layer}.${kind}`)])) as Partial<Record<StateKind, Elements>>,
  );
  return {
    tokens,
    states,
    pages: pages.layers.map((_, layer) => ({ keys: floats(`pages.${layer}.keys`), values: floats(`pages.${layer}.values`) })),
  };
}
