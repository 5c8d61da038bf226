/** Regular expressions of published tokenizers. */

const contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const ends = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** The expression of Qwen2, Qwen2.5, Qwen3 and Qwen3-Next. */
export const qwen2Expression = `${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${ends}`;

/** The expression of Qwen3.5. */
export const qwen35Expression = `${contractions}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${ends}`;

/**
 * Each expression matches a run of characters by one alternative after at most one pass back over it, so the whole takes a
 * bounded number of passes. A test times them on long runs.
 */
export const knownExpressions: readonly string[] = [
  // GPT-2, and OLMo and others after it
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  qwen2Expression,
  qwen35Expression,
  // Llama 3, OLMo 2, GPT-4
  `${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${ends}`,
  // GPT-4o, gpt-oss
  `[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${contractions}?|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${contractions}?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${ends}`,
  // Parts of DeepSeek's, and digits in several
  "\\p{N}{1,3}",
  "\\p{N}",
  "[一-龥\u3040-ゟ゠-ヿ]+",
];
