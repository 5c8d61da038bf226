/**
 * The tokenizer and the chat templates of a GGUF file, in the form of `tokenizer.json` and `tokenizer_config.json`. Keys: ggml,
 * `docs/gguf.md`; regular expressions by the names in `tokenizer.ggml.pre`: llama.cpp, `src/llama-vocab.cpp`.
 *
 * Unlike the `tokenizer.json` of these models, a GGUF file says nothing of Unicode normalization, and llama.cpp does none.
 */
import { FileError, UnsupportedError, describe } from "../../errors.ts";
import { openGguf } from "../../checkpoint/gguf/gguf-checkpoint.ts";
import type { Metadata } from "../../checkpoint/gguf/metadata.ts";
import type { JsonObject } from "../../checkpoint/json.ts";
import { qwen2Expression, qwen35Expression } from "./known-expressions.ts";

const expressions: Readonly<Record<string, string>> = { qwen2: qwen2Expression, qwen35: qwen35Expression };

/** ggml's `enum llama_token_type`. Tokens of type `unused` have an id and nothing else. */
const [normal, control, userDefined, unused] = [1, 3, 4, 5];

/** More merges than tokens make no sense: each merge makes a token. */
const mergesPerToken = 2;

const largestId = 2 ** 31 - 1;

/** Tokens that are named in both forms. */
const namedTokens = { bos_token: "bos", eos_token: "eos", pad_token: "padding", unk_token: "unknown" } as const;

/** Whether a GGUF file has a tokenizer. Only the header is read. */
export function ggufHasTokenizer(path: string): boolean {
  using file = openGguf(path, "model.text");
  return hasTokens(file.values);
}

function hasTokens(values: Metadata): boolean {
  return (values.text("tokenizer.ggml.model") ?? "none") !== "none" && values.has("tokenizer.ggml.tokens");
}

/**
 * A GGUF file's tokenizer.
 *
 * @param vocabSize the model's number of token ids.
 * @returns undefined if the file has none.
 * @throws {FileError} for metadata that are missing or damaged; {@link UnsupportedError} for tokenizers other than byte-level BPE
 *   of a known regular expression.
 */
export function readGgufTokenizer(op: string, path: string, vocabSize: number): { readonly json: JsonObject; readonly config: JsonObject } | undefined {
  using file = openGguf(path, op);
  const { values } = file;
  if (!hasTokens(values)) return undefined;
  const tokens = required(values.texts("tokenizer.ggml.tokens", vocabSize), "tokens");
  const expression = expressionOf(values);
  const merges = required(values.texts("tokenizer.ggml.merges", mergesPerToken * tokens.length), "merges");
  const types = values.integers("tokenizer.ggml.token_type", vocabSize);
  if (types !== undefined && types.length !== tokens.length) throw refuse(`tokenizer.ggml.token_type of ${tokens.length} tokens`, `${types.length}`);
  // Without a prototype, so that a token may have any text.
  const vocab = Object.create(null) as Record<string, number>;
  const seen = new Set<string>();
  const added: JsonObject[] = [];
  for (const [id, token] of tokens.entries()) {
    if (seen.has(token)) throw refuse("each of tokenizer.ggml.tokens once", `${describe(token)} twice`);
    seen.add(token);
    const type = types?.[id] ?? normal;
    if (type === normal) vocab[token] = id;
    else if (type === control || type === userDefined) {
      added.push({ id, content: token, special: type === control, single_word: false, lstrip: false, rstrip: false, normalized: false });
    } else if (type !== unused) {
      const expected = `types ${normal} (normal), ${control} (control), ${userDefined} (user-defined) and ${unused} (unused)`;
      throw new UnsupportedError({ op, argument: `${path}: tokenizer.ggml.token_type[${id}]`, expected, received: `${type}` });
    }
  }
  const frame = frameOf(values, tokens);
  const json = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: expression }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    post_processor: frame,
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: "", end_of_word_suffix: "", fuse_unk: false, byte_fallback: false, vocab, merges },
  };
  return { json, config: namedIn(values, tokens) };

  function required<T>(value: T | undefined, key: string): T {
    if (value !== undefined) return value;
    throw refuse(`metadata tokenizer.ggml.${key}`, "none");
  }

  function refuse(expected: string, received: string): FileError {
    return new FileError(path, { op, expected, received });
  }

  function expressionOf(metadata: Metadata): string {
    const model = metadata.text("tokenizer.ggml.model");
    if (model !== "gpt2") throw new UnsupportedError({ op, argument: `${path}: tokenizer.ggml.model`, expected: '"gpt2", byte-level BPE', received: describe(model) });
    const pre = metadata.text("tokenizer.ggml.pre") ?? "none";
    if (Object.hasOwn(expressions, pre)) return expressions[pre]!;
    const expected = Object.keys(expressions).map((name) => describe(name)).join(" or ");
    throw new UnsupportedError({ op, argument: `${path}: tokenizer.ggml.pre`, expected, received: describe(pre) });
  }

  /** The tokens around a whole text. */
  function frameOf(metadata: Metadata, all: readonly string[]): JsonObject | null {
    const before = metadata.flag("tokenizer.ggml.add_bos_token") === true ? [tokenOf(metadata, "bos", all)] : [];
    const after = metadata.flag("tokenizer.ggml.add_eos_token") === true ? [tokenOf(metadata, "eos", all)] : [];
    if (before.length + after.length === 0) return null;
    const special = (token: string) => ({ SpecialToken: { id: token, type_id: 0 } });
    const single = [...before.map(special), { Sequence: { id: "A", type_id: 0 } }, ...after.map(special)];
    const used = [...new Set([...before, ...after])];
    const special_tokens = Object.fromEntries(used.map((token) => [token, { id: token, ids: [all.indexOf(token)], tokens: [token] }]));
    return { type: "TemplateProcessing", single, pair: single, special_tokens };
  }

  function tokenOf(metadata: Metadata, name: string, all: readonly string[]): string {
    const id = required(metadata.integer(`tokenizer.ggml.${name}_token_id`, 0, all.length - 1), `${name}_token_id`);
    return all[id]!;
  }
}

/** The named tokens of a `tokenizer_config.json`. */
function namedIn(values: Metadata, tokens: readonly string[]): JsonObject {
  const found: Record<string, string> = {};
  for (const [key, name] of Object.entries(namedTokens)) {
    const id = values.integer(`tokenizer.ggml.${name}_token_id`, 0, largestId);
    if (id !== undefined && tokens[id] !== undefined) found[key] = tokens[id];
  }
  return found;
}

/**
 * A GGUF file's chat templates and named tokens, as `chat_template` and other keys of a `tokenizer_config.json`.
 *
 * @throws {FileError} for metadata that are damaged.
 */
export function readGgufTemplates(op: string, path: string): JsonObject {
  using file = openGguf(path, op);
  const { values } = file;
  const main = values.text("tokenizer.chat_template");
  const prefix = "tokenizer.chat_template.";
  const named = values.keys.filter((key) => key.startsWith(prefix)).map((key) => ({ name: key.slice(prefix.length), template: values.text(key) }));
  const tokens = hasTokens(values) ? values.texts("tokenizer.ggml.tokens", file.info("model.embed_tokens.weight").shape[0] ?? 0) ?? [] : [];
  const templates = [...(main === undefined ? [] : [{ name: "default", template: main }]), ...named];
  return { ...namedIn(values, tokens), ...(templates.length > 0 && { chat_template: templates }) };
}
