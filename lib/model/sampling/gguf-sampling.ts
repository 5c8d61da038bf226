/** The sampling settings in the metadata of a GGUF file. Keys: gguf-py, `constants.py`; use: llama.cpp, `common/common.cpp`. */
import { openGguf } from "../../checkpoint/gguf/gguf-checkpoint.ts";

/**
 * The settings under `general.sampling.`, with their names and values in a `generation_config.json`.
 *
 * @throws {FileError} for values that are not numbers.
 */
export function readGgufSampling(op: string, path: string): Readonly<Record<string, number | undefined>> {
  using file = openGguf(path, op);
  const number = (key: string) => decimal(file.values.number(`general.sampling.${key}`));
  const [most, window, penalty] = [number("top_k"), number("penalty_last_n"), number("penalty_repeat")];
  return {
    temperature: number("temp"),
    // In llama.cpp, 0 and below mean all tokens.
    top_k: most === undefined ? undefined : Math.max(0, most),
    top_p: number("top_p"),
    min_p: number("min_p"),
    // 0 means no tokens, and so no penalty.
    repetition_penalty: window === 0 && penalty !== undefined ? 1 : penalty,
    repetition_window: window !== undefined && window > 0 ? window : undefined,
  };
}

/** The shortest decimal number that a float32 value may have been written as. */
function decimal(value: number | undefined): number | undefined {
  if (value === undefined || Math.fround(value) !== value) return value;
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}
