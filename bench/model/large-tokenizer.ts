import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { largeMerges } from "../../test/support/large-vocabulary.ts";

/**
 * Gives a random model's folder a tokenizer that is as large as the model's vocabulary, unless it already has one.
 *
 * @param pairs whether merges are pairs of tokens, as newer versions of transformers write them, or texts with a blank, as older ones do.
 */
export function giveTokenizer(folder: string, pairs = true): void {
  const tokenizer = join(folder, "tokenizer.json");
  if (existsSync(tokenizer)) return;
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));
  const { vocab_size: size, eos_token_id: eos } = (config.text_config ?? config) as { vocab_size: number; eos_token_id: number | readonly number[] };
  const ends = new Set([eos].flat());
  const ids = Array.from({ length: size }, (_, id) => id).filter((id) => !ends.has(id));
  const { words, merges } = largeMerges(ids.length);
  const vocab = Object.fromEntries(words.map((word, i) => [word, ids[i]!]));
  const added = [...ends].map((id) => ({ id, content: `<|end${id}|>`, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }));
  const model = { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: "", end_of_word_suffix: "", fuse_unk: false, byte_fallback: false, vocab, merges: pairs ? merges : merges.map((pair) => pair.join(" ")) };
  const cut = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  writeFileSync(tokenizer, JSON.stringify({ version: "1.0", truncation: null, padding: null, added_tokens: added, normalizer: null, pre_tokenizer: cut, post_processor: null, decoder: { type: "ByteLevel" }, model }, undefined, 2));
}
