/**
 * The tokenizer and the chat templates of a GGUF file, in the form of `tokenizer.json` and `tokenizer_config.json`. Keys: ggml,
 * `docs/gguf.md`; regular expressions by the names in `tokenizer.ggml.pre`: llama.cpp, `src/llama-vocab.cpp`.
 *
 * Unlike the `tokenizer.json` of these models, a GGUF file does not specify Unicode normalization, and llama.cpp does none.
 */
import { FileError, UnsupportedError, describe } from "../../errors.ts";
import { endNames } from "../../checkpoint/gguf/architectures.ts";
import { openGguf } from "../../checkpoint/gguf/gguf-checkpoint.ts";
import type { Metadata, StoredTexts } from "../../checkpoint/gguf/metadata.ts";
import type { JsonObject } from "../../checkpoint/json.ts";
import { qwen2Expression, qwen35Expression } from "./known-expressions.ts";
import { addMerge } from "./scan-tables.ts";
import { TextTable } from "./text-table.ts";
import type { TokenizerTables } from "./tokenizer-tables.ts";

const expressions: Readonly<Record<string, string>> = { qwen2: qwen2Expression, qwen35: qwen35Expression };

/** ggml's `enum llama_token_type`. Tokens of type `unused` have an id and nothing else. */
const [normal, control, userDefined, unused] = [1, 3, 4, 5];

/**
 * Control tokens by their texts, whatever their type: those that llama.cpp also treats as ends and as marks of code
 * (`llama_vocab::impl::load`), as far as vocabularies of these models have them.
 */
const controls = new Set([
  ...["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|end_of_text|>"],
  ...["<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|fim_repo|>", "<|repo_name|>", "<|file_sep|>"],
]);

/** The first two bytes of these texts. */
const [lessThan, bar] = [0x3c, 0x7c];

/** Far above the bytes of any end token. */
const longestEnd = 256;

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
export function readGgufTokenizer(op: string, path: string, vocabSize: number): { readonly tables: TokenizerTables; readonly config: JsonObject } | undefined {
  using file = openGguf(path, op);
  const { values } = file;
  if (!hasTokens(values)) return undefined;
  const all = required(values.texts("tokenizer.ggml.tokens", vocabSize), "tokens");
  const expression = expressionOf(values);
  const pairs = required(values.texts("tokenizer.ggml.merges", mergesPerToken * all.length), "merges");
  const types = values.integers("tokenizer.ggml.token_type", vocabSize);
  if (types !== undefined && types.length !== all.length) throw refuse(`tokenizer.ggml.token_type of ${all.length} tokens`, `${types.length}`);
  const merges = new TextTable(pairs.bytes);
  for (let rank = 0; rank < pairs.length; rank++) addMerge(merges, pairs.bytes, pairs.starts[rank]!, pairs.ends[rank]!);
  merges.index();
  const isControl = controlsOf(values, all, merges);
  const tokens = new TextTable(all.bytes);
  const ids: number[] = [];
  const others: number[] = [];
  for (let id = 0; id < all.length; id++) {
    if ((types?.[id] ?? normal) === normal && !isControl.has(id)) {
      tokens.add(all.starts[id]!, all.ends[id]!);
      ids.push(id);
    } else others.push(id);
  }
  const repeated = tokens.index();
  if (repeated !== undefined) throw twice(tokens.at(repeated));
  const seen = new Set<string>();
  const added: JsonObject[] = [];
  for (const id of others) {
    const [token, type] = [all.at(id), types?.[id] ?? normal];
    if (seen.has(token) || tokens.find(token) !== undefined) throw twice(token);
    seen.add(token);
    if (![normal, control, userDefined, unused].includes(type)) {
      const expected = `types ${normal} (normal), ${control} (control), ${userDefined} (user-defined) and ${unused} (unused)`;
      throw new UnsupportedError({ op, argument: `${path}: tokenizer.ggml.token_type[${id}]`, expected, received: `${type}` });
    }
    const special = type === control || isControl.has(id);
    if (special || type === userDefined) added.push({ id, content: token, special, single_word: false, lstrip: false, rstrip: false, normalized: false });
  }
  const frame = frameOf(values, all);
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
    model: { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: "", end_of_word_suffix: "", fuse_unk: false, byte_fallback: false },
  };
  return { tables: { json, tokens, ids, merges }, config: namedIn(values, all) };

  function required<T>(value: T | undefined, key: string): T {
    if (value !== undefined) return value;
    throw refuse(`metadata tokenizer.ggml.${key}`, "none");
  }

  function refuse(expected: string, received: string): FileError {
    return new FileError(path, { op, expected, received });
  }

  function twice(token: string): FileError {
    return refuse("each of tokenizer.ggml.tokens once", `${describe(token)} twice`);
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
  function frameOf(metadata: Metadata, texts: StoredTexts): JsonObject | null {
    const before = metadata.flag("tokenizer.ggml.add_bos_token") === true ? [idOf(metadata, "bos", texts)] : [];
    const after = metadata.flag("tokenizer.ggml.add_eos_token") === true ? [idOf(metadata, "eos", texts)] : [];
    if (before.length + after.length === 0) return null;
    const special = (id: number) => ({ SpecialToken: { id: texts.at(id), type_id: 0 } });
    const single = [...before.map(special), { Sequence: { id: "A", type_id: 0 } }, ...after.map(special)];
    const special_tokens = Object.fromEntries([...before, ...after].map((id) => [texts.at(id), { id: texts.at(id), ids: [id], tokens: [texts.at(id)] }]));
    return { type: "TemplateProcessing", single, pair: single, special_tokens };
  }

  function idOf(metadata: Metadata, name: string, { length }: StoredTexts): number {
    return required(metadata.id(`tokenizer.ggml.${name}_token_id`, length - 1), `${name}_token_id`);
  }
}

/**
 * The ids of tokens that are control tokens whatever their type: some by their text, and the file's end tokens, unless plain text can
 * become them.
 */
function controlsOf(values: Metadata, tokens: StoredTexts, merges: TextTable): ReadonlySet<number> {
  const found = new Set<number>();
  const { bytes, starts } = tokens;
  for (let id = 0; id < tokens.length; id++) {
    const start = starts[id]!;
    if (bytes[start] === lessThan && bytes[start + 1] === bar && controls.has(tokens.at(id))) found.add(id);
  }
  for (const name of endNames) {
    const id = values.id(`tokenizer.ggml.${name}_token_id`, largestId);
    if (id === undefined || id >= tokens.length || tokens.ends[id]! - starts[id]! > longestEnd) continue;
    const text = [...tokens.at(id)];
    const isMade = text.length < 2 || text.some((_, cut) => merges.find(text.slice(0, cut).join(""), text.slice(cut).join("")) !== undefined);
    if (!isMade) found.add(id);
  }
  return found;
}

/** The named tokens of a `tokenizer_config.json`. */
function namedIn(values: Metadata, tokens: StoredTexts | undefined): JsonObject {
  const found: Record<string, string> = {};
  for (const [key, name] of Object.entries(namedTokens)) {
    const id = values.id(`tokenizer.ggml.${name}_token_id`, largestId);
    if (id !== undefined && tokens !== undefined && id < tokens.length) found[key] = tokens.at(id);
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
  const tokens = hasTokens(values) ? values.texts("tokenizer.ggml.tokens", file.info("model.embed_tokens.weight").shape[0] ?? 0) : undefined;
  const templates = [...(main === undefined ? [] : [{ name: "default", template: main }]), ...named];
  return { ...namedIn(values, tokens), ...(templates.length > 0 && { chat_template: templates }) };
}
