/**
 * Models that recite: their answer depends only on how many messages came before it. No two answers share a token, so
 * each token determines the next one; a Gated DeltaNet counts the beginnings of messages, which determines the first token and the
 * one after `</think>`, which is a single token. Weights are written by hand, and everything runs as in any other model. Also
 * usable outside bun's tests.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { byteCharacters } from "../../lib/model/text/byte-level.ts";
import { tinyConfig, tinyModel } from "./model-folders.ts";

/** Answers, and how a model recites them. */
export interface Recital {
  /** The answers, by the number of `<|im_start|>` in the prompt. */
  readonly answers: Readonly<Record<number, string>>;
  /** The chat template. It begins messages with `<|im_start|>` and ends them with `<|im_end|>`. */
  readonly template: string;
  /**
   * Whether its tokens are those that the tokenizer makes of the answers (only for answers without tags, which a prompt could have in
   * part), others, or others that may end within a character. @default "same"
   */
  readonly tokens?: "same" | "other" | "split";
}

const thought = "</think>";
const tags = ["<think>", thought, "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"];
const [start, end] = [1, 2];
const base = join(import.meta.dir, "../golden/models/qwen3_5-mlx-mixed");

/** Cuts texts, given as units, into pieces of a few units; no two pieces are the same and none is in `seen`. */
function piecesOf(answers: readonly (readonly string[])[], seen: Set<string>): string[][] {
  return answers.map((answer) => {
    const pieces: string[] = [];
    const left = [...answer];
    let units = 0;
    for (let piece = ""; left.length > 0; ) {
      piece += left.shift()!;
      units++;
      const done = left.length === 0;
      if (!done && (units < 3 + (left.length % 3) || left.length < 3)) continue;
      if (!done && seen.has(piece)) continue;
      while (seen.has(piece)) piece = pieces.pop()! + piece;
      seen.add(piece);
      pieces.push(piece);
      piece = "";
      units = 0;
    }
    return pieces;
  });
}

/** Writes a model to a folder. */
export function writeReciter(folder: string, { answers, template, tokens: cut = "same" }: Recital): string {
  const counts = Object.keys(answers).map(Number);
  const tokenizer = JSON.parse(readFileSync(join(base, "tokenizer.json"), "utf8"));
  const { added_tokens: added, model } = tokenizer;
  const bytesOf = (text: string) => [...new TextEncoder().encode(text)].map((byte) => byteCharacters[byte]!);
  const unitsOf = (answer: string) => (cut === "split" ? bytesOf(answer) : cut === "same" ? [...answer] : [...answer].map((character) => bytesOf(character).join("")));
  // Thoughts and the text after them, in turn.
  const texts = Object.values(answers).flatMap((answer) => (answer.includes(thought) ? [answer.slice(0, answer.indexOf(thought)), answer.slice(answer.indexOf(thought) + thought.length)] : ["", answer]));
  const pieces = piecesOf(texts.map(unitsOf), new Set([...tags, ...Object.keys(model.vocab)]));
  const addToken = (id: number, content: string) => added.push({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false });
  let vocabulary = 512;
  for (const tag of tags) addToken(vocabulary++, tag);
  const after = 512 + tags.indexOf(thought);
  const first = vocabulary;
  for (const text of pieces.flat()) {
    if (cut === "same") addToken(vocabulary++, text);
    else model.vocab[text] = vocabulary++;
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  writeFileSync(join(folder, "tokenizer_config.json"), readFileSync(join(base, "tokenizer_config.json")));
  writeFileSync(join(folder, "chat_template.jinja"), template);

  // A hidden state: 1, whether the token begins a message or ends thoughts, how many messages have begun, and which answer token it is.
  const [one, begins, count, ends, own] = [0, 1, 2, 3, 4];
  const hidden = Math.ceil((own + vocabulary - first) / 8) * 8;
  const sizes = { ...tinyModel, hidden, vocabulary, layers: "ga", valueHeads: 1, tied: false };
  const { intermediate, heads, kvHeads, headDim, keyDim, valueDim, convWidth } = sizes;
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...tinyConfig(sizes), eos_token_id: end }));
  const tensors: Record<string, TensorToWrite> = {};
  const put = (name: string, shape: readonly number[], ...values: (readonly [row: number, column: number, value: number])[]) => {
    const data = new Float32Array(shape.reduce((product, size) => product * size, 1));
    for (const [row, column, value] of values) data[row * shape.at(-1)! + column] = value;
    tensors[name] = { dtype: "F32", shape, data };
    return data;
  };
  const ids = Array.from({ length: vocabulary }, (_, id) => id);
  put("model.embed_tokens.weight", [vocabulary, hidden], ...ids.map((id) => [id, one, 1] as const), [start, begins, 1], [after, ends, 1], ...ids.slice(first).map((id) => [id, own + id - first, 1] as const));
  for (const layer of [0, 1]) {
    const at = `model.layers.${layer}`;
    for (const name of ["input_layernorm", "post_attention_layernorm"]) put(`${at}.${name}.weight`, [hidden]);
    for (const name of ["gate_proj", "up_proj"]) put(`${at}.mlp.${name}.weight`, [intermediate, hidden]);
    put(`${at}.mlp.down_proj.weight`, [hidden, intermediate]);
  }
  const attention = "model.layers.1.self_attn";
  for (const [name, rows] of [["q_proj", 2 * heads * headDim], ["k_proj", kvHeads * headDim], ["v_proj", kvHeads * headDim]] as const) put(`${attention}.${name}.weight`, [rows, hidden]);
  put(`${attention}.o_proj.weight`, [hidden, heads * headDim]);
  for (const name of ["q_norm", "k_norm"]) put(`${attention}.${name}.weight`, [headDim]);

  // The state's first value goes from c to c + β (v − c) with each beginning, and stays otherwise.
  const mixer = "model.layers.0.linear_attn";
  const rms = Math.sqrt(hidden / 2); // the factor by which the norm multiplies states with two ones
  const [beta, value, never] = [0.1, 1e-6, -40];
  const channels = 2 * keyDim + valueDim;
  put(`${mixer}.in_proj_qkv.weight`, [channels, hidden], [0, one, 1], [keyDim, one, 1], [2 * keyDim, one, (2 * value) / rms]);
  put(`${mixer}.in_proj_z.weight`, [valueDim, hidden], [0, one, 10 / Math.sqrt(hidden)]);
  put(`${mixer}.in_proj_b.weight`, [1, hidden], [0, one, never / rms], [0, begins, (Math.log(beta / (1 - beta)) - never) / rms]);
  put(`${mixer}.in_proj_a.weight`, [1, hidden]);
  put(`${mixer}.conv1d.weight`, [channels, 1, convWidth]).forEach((_, i, data) => (data[i] = i % convWidth === convWidth - 1 ? 1 : 0));
  put(`${mixer}.A_log`, [1], [0, 0, -40]);
  put(`${mixer}.dt_bias`, [1], [0, 0, -20]);
  put(`${mixer}.norm.weight`, [valueDim], [0, 0, 300]);
  put(`${mixer}.out_proj.weight`, [hidden, valueDim], [count, 0, 1]);
  /** The third number of a hidden state after that many beginnings. The output gate is smaller where the state has two ones. */
  const counted = (beginnings: number, ones: 1 | 2): number => {
    const written = (2 * value) / (1 + Math.exp(-2 * value));
    const read = (written * (1 - (1 - beta) ** beginnings)) / Math.sqrt(keyDim);
    const gate = 10 / Math.sqrt(ones);
    return ((read / Math.sqrt(read ** 2 / valueDim + 1e-6)) * 300 * gate) / (1 + Math.exp(-gate));
  };

  // The answer whose count is nearest: the smallest (c − m)², so the largest 2 c m − m².
  put("model.norm.weight", [hidden]);
  const weights: [row: number, column: number, value: number][] = ids.map((id) => [id, one, -1e6]);
  let id = first;
  for (const [i, part] of pieces.entries()) {
    const thoughts = i % 2 === 0;
    const beginnings = counts[i >> 1]!;
    const alone = thoughts || pieces[i - 1]!.length === 0; // it begins the answer
    const mean = counted(beginnings, alone ? 1 : 2);
    if (part.length > 0) {
      weights.push([id, one, -2e4 * mean ** 2 - (alone ? 0 : 4e6)], [id, count, 4e4 * mean]);
      if (!alone) weights.push([id, ends, 5e6]);
    }
    for (const [at] of part.entries()) weights.push([at + 1 < part.length ? id + 1 : thoughts ? after : end, own + id++ - first, 4e6]);
  }
  put("lm_head.weight", [vocabulary, hidden], ...weights);
  writeSafetensors(join(folder, "model.safetensors"), tensors, { format: "pt" });
  return folder;
}
