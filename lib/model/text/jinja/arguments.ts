/** The arguments of a call in a template, by position or by name. */
import type { Text } from "./origin.ts";
import { typeName } from "./operators.ts";
import { isInteger, isText, textOf, truth } from "./values.ts";
import type { Value } from "./values.ts";

/** Looks up arguments by parameter name; too many arguments and unknown names are errors. */
export class Arguments {
  readonly #call: string;
  readonly #named = new Map<string, Value>();

  /** @param names the parameters in order. */
  constructor(call: string, given: readonly Value[], names: readonly string[]) {
    this.#call = call;
    const last = given.at(-1);
    const keywords = last?.type === "KeywordArgumentsValue" ? last.value : new Map<string, Value>();
    const positional = last?.type === "KeywordArgumentsValue" ? given.slice(0, -1) : given;
    if (positional.length > names.length) throw new Error(`${call} takes at most ${names.length} arguments, got ${positional.length}`);
    for (const [i, value] of positional.entries()) this.#named.set(names[i]!, value);
    for (const [name, value] of keywords) {
      if (!names.includes(name)) throw new Error(`${call} has no argument ${name}`);
      if (this.#named.has(name)) throw new Error(`${call} got ${name} twice`);
      this.#named.set(name, value);
    }
  }

  /** The length of the longest text among the arguments. */
  get longestText(): number {
    return Math.max(0, ...this.#named.values().map((value) => (isText(value) ? value.value.length : 0)));
  }

  value(name: string): Value | undefined {
    return this.#named.get(name);
  }

  /** An optional value; None counts as absent. */
  optional(name: string): Value | undefined {
    const value = this.value(name);
    return value?.type === "NullValue" ? undefined : value;
  }

  text(name: string): Text {
    const value = this.value(name);
    if (value === undefined || !isText(value)) throw this.#wrong(name, "a string", value);
    return textOf(value);
  }

  string(name: string, otherwise?: string): string {
    return otherwise !== undefined && this.value(name) === undefined ? otherwise : this.text(name).value;
  }

  optionalString(name: string): string | undefined {
    return this.optional(name) === undefined ? undefined : this.text(name).value;
  }

  integer(name: string, otherwise: number): number {
    const value = this.value(name);
    if (value === undefined) return otherwise;
    if (!isInteger(value)) throw this.#wrong(name, "an integer", value);
    return Number(value.value);
  }

  /** A maximum count; Infinity if it is negative or absent. */
  count(name: string): number {
    const most = this.optional(name) === undefined ? -1 : this.integer(name, -1);
    return most < 0 ? Infinity : most;
  }

  flag(name: string, otherwise: boolean): boolean {
    const value = this.value(name);
    return value === undefined ? otherwise : truth(value);
  }

  #wrong(name: string, expected: string, value: Value | undefined): Error {
    return new Error(`${this.#call} takes ${expected} as ${name}, got ${value === undefined ? "nothing" : typeName(value)}`);
  }
}
