import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { largeVocabulary } from "../../test/support/large-vocabulary.ts";

/** Gives the folder of a random model a tokenizer that is as large as its vocabulary, unless it has one. */
export function giveTokenizer(folder: string): void {
  const tokenizer = join(folder, "tokenizer.json");
  if (existsSync(tokenizer)) return;
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));
  const { vocab_size: size, eos_token_id: eos } = (config.text_config ?? config) as { vocab_size: number; eos_token_id: number | readonly number[] };
  const ends = new Set([eos].flat());
  const ids = Array.from({ length: size }, (_, id) => id).filter((id) => !ends.has(id));
  const vocab = Object.fromEntries(largeVocabulary(ids.length).map((word, i) => [word, ids[i]!]));
  const added = [...ends].map((id) => ({ id, content: `<|end${id}|>`, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }));
  writeFileSync(tokenizer, JSON.stringify({ added_tokens: added, decoder: { type: "ByteLevel" }, pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true }, normalizer: null, post_processor: null, model: { type: "BPE", vocab, merges: [] } }));
}
