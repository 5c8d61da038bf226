/** The types that a JSON schema gives a value, and the value of such a type from its text. */
import { isRecord } from "../../../checkpoint/json.ts";
import type { JsonObject } from "../../../checkpoint/json.ts";
import { isObject, quoteJson, readJson } from "./json-text.ts";
import { numberJson, pythonJson } from "./python-literal.ts";

/** The type that a schema gives a value. */
export interface ArgumentType {
  /** JSON Schema's type names; undefined if the schema leaves them open. */
  readonly names: ReadonlySet<string> | undefined;
  /** The strings of an enumeration. */
  readonly strings: ReadonlySet<string>;
}

/** A value without a schema is the string that it is written as. */
export const stringType: ArgumentType = { names: new Set(["string"]), strings: new Set() };

/** The most subschemas that are read for a type: references can multiply them without limit. */
const mostSchemas = 1000;

/**
 * The type that a schema gives a value: by `type`, `enum`, `const`, `anyOf`, `oneOf`, `allOf`, `nullable`, local `$ref`s, and
 * keywords that only objects or arrays have.
 *
 * @param root the schema that local references begin at.
 */
export function typeOf(schema: unknown, root: unknown): ArgumentType {
  const strings = new Set<string>();
  let left = mostSchemas;

  /** The names of a schema's types; undefined if the schema names none. */
  function namesOf(one: unknown): Set<string> | undefined {
    if (!isRecord(one) || left-- <= 0) return undefined;
    const names = union([one["anyOf"], one["oneOf"]].flatMap((list) => (Array.isArray(list) ? list.map(namesOf) : []))) ?? new Set<string>();
    const add = (found: Iterable<string> | undefined): void => {
      for (const name of found ?? []) names.add(name);
    };
    const { type, nullable, properties, items } = one;
    add([type].flat().filter((name) => typeof name === "string"));
    if (names.size === 0) {
      const values = Array.isArray(one["enum"]) ? one["enum"] : "const" in one ? [one["const"]] : [];
      for (const value of values) {
        if (typeof value === "string") strings.add(value);
        names.add(typeOfValue(value));
      }
    }
    if (names.size === 0 && typeof one["$ref"] === "string") add(namesOf(referred(one["$ref"], root)));
    if (names.size === 0 && Array.isArray(one["allOf"])) add(one["allOf"].map(namesOf).find((found) => found !== undefined));
    if (names.size === 0 && isRecord(properties)) names.add("object");
    if (names.size === 0 && isRecord(items)) names.add("array");
    if (names.size === 0) return undefined;
    if (nullable === true) names.add("null");
    return names;
  }

  return { names: namesOf(schema), strings };
}

/** The types of any of several schemas; undefined if one of them leaves its type open, or there are none. */
function union(all: readonly (Set<string> | undefined)[]): Set<string> | undefined {
  if (all.length === 0 || all.includes(undefined)) return undefined;
  return new Set(all.flatMap((names) => [...names!]));
}

function typeOfValue(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** The part of a schema that a reference such as `#/$defs/Place` names. */
function referred(reference: string, root: unknown): unknown {
  if (!reference.startsWith("#")) return undefined;
  let found = root;
  for (const step of reference.slice(1).split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    found = isRecord(found) && Object.hasOwn(found, key) ? (found as JsonObject)[key] : undefined;
  }
  return found;
}

/** Whether every text of this type is a string, so that it need not be complete to be known. */
export function isString({ names }: ArgumentType): boolean {
  return names?.size === 1 && names.has("string");
}

/**
 * The JSON of a value that is written without quotes: of the schema's type if the text has a value of it, otherwise a
 * string. Python's `True`, `None`, lists and dictionaries also count, since templates write values by `str`.
 */
export function valueJson({ names, strings }: ArgumentType, text: string): string {
  if (strings.has(text)) return quoteJson(text);
  const is = (name: string): boolean => names === undefined || names.has(name);
  const word = text.trim();
  if (is("null") && (word === "null" || word === "None")) return "null";
  if (names?.has("boolean") && /^(?:true|false)$/i.test(word)) return word.toLowerCase();
  if (names?.has("number") || names?.has("integer")) {
    const number = numberJson(word);
    if (number !== undefined && readJson(number) !== undefined && (names.has("number") || Number.isInteger(Number(number)))) return number;
  }
  if ((is("object") || is("array")) && /^[[{(]/.test(word)) {
    const found = bracketed(word);
    if (found !== undefined && is(found.type)) return found.json;
  }
  return quoteJson(text);
}

/** An array or object, from JSON or else Python. */
function bracketed(text: string): { readonly json: string; readonly type: "array" | "object" } | undefined {
  for (const json of [text, pythonJson(text)]) {
    const read = json === undefined ? undefined : readJson(json);
    if (read !== undefined) return { json: json!, type: isObject(read.value) ? "object" : "array" };
  }
  return undefined;
}
