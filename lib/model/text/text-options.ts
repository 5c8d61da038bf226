import { invalid } from "../../arguments/checks.ts";

/**
 * Options of calls that are made for each text: checked without zod, which takes 13 ms to load.
 *
 * @throws {GatedDeltaError} of code `invalid-argument` for a misspelt name, inherited ones too.
 */
export function expectOptions(op: string, options: unknown, names: readonly string[]): void {
  if (typeof options !== "object" || options === null) throw invalid(op, "options", "an object of options", options);
  for (const key in options) {
    if (!names.includes(key)) throw invalid(op, key, `one of the options ${names.join(", ")}`, (options as Record<string, unknown>)[key]);
  }
}
