/** The keywords of schemas: the known ones, those that say nothing about values, and how schemas combine. */
import { stringifyWithDigits } from "../text/json-digits.ts";
import { spend } from "./effort.ts";
import { SchemaProblem } from "./schema-problem.ts";
import type { JsonSchemaObject } from "./schema-problem.ts";

/** Types of values. */
export type TypeName = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";

/** Keywords for values of one type, in the order in which types are tried. */
const ofTypes: Readonly<Record<"object" | "array" | "string" | "number", readonly string[]>> = {
  object: ["properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties"],
  array: ["items", "prefixItems", "minItems", "maxItems"],
  string: ["minLength", "maxLength", "pattern", "format"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
};

/** Keywords that say nothing about values. */
const silent = [
  "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$schema", "$id", "id", "$comment", "$defs", "definitions",
  "contentEncoding", "contentMediaType",
];

/** All keywords that are enforced or say nothing. */
const known = new Set([...Object.values(ofTypes).flat(), ...silent, "type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "uniqueItems"]);

/** A schema's keywords for values of a type, as text that is equal for schemas that allow the same values. */
export const keywordsOf = (schema: JsonSchemaObject, type: keyof typeof ofTypes): string => stringifyWithDigits(ofTypes[type].filter((key) => schema[key] !== undefined).map((key) => [key, schema[key]]));

const allTypes: readonly TypeName[] = ["object", "array", "string", "number", "integer", "boolean", "null"];

export const isObject = (value: unknown): value is JsonSchemaObject => typeof value === "object" && value !== null && !Array.isArray(value);

/** Refuses keywords that would not be enforced. */
export function refuseUnknown(schema: JsonSchemaObject, path: string): void {
  for (const [key, value] of Object.entries(schema)) {
    if (key === "uniqueItems" && value === false) continue;
    if ((known.has(key) && key !== "uniqueItems") || key.startsWith("x-")) continue;
    throw new SchemaProblem(`${path}.${key}`, "keywords that are enforced", value);
  }
}

/** The types of values that a schema allows: the types that it names, else those that its keywords are for, else all. */
export function typesOf(schema: JsonSchemaObject, path: string): readonly TypeName[] {
  const { type } = schema;
  if (type === undefined) {
    const found = (Object.keys(ofTypes) as (keyof typeof ofTypes)[]).filter((one) => ofTypes[one].some((key) => schema[key] !== undefined));
    return found.length > 0 ? found : allTypes.filter((one) => one !== "integer");
  }
  const list: readonly unknown[] = Array.isArray(type) ? type : [type];
  const names = allTypes.filter((name) => list.includes(name));
  if (list.length === 0 || list.some((one) => !allTypes.includes(one as TypeName))) throw new SchemaProblem(`${path}.type`, allTypes.join(" | "), type);
  // Each integer is also a number.
  return names.includes("number") ? names.filter((name) => name !== "integer") : names;
}

/**
 * A schema's keywords other than one, with those of a schema under it.
 *
 * @throws {SchemaProblem} where a keyword has two values, or would mean something else.
 */
export function merged(schema: JsonSchemaObject, without: string, under: JsonSchemaObject, path: string): JsonSchemaObject {
  const found: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) if (key !== without && !silent.includes(key) && !key.startsWith("x-")) found[key] = value;
  const own = Object.keys(found);
  for (const [key, value] of Object.entries(under)) {
    if (silent.includes(key) || key.startsWith("x-")) continue;
    if (key in found && stringifyWithDigits(found[key]) !== stringifyWithDigits(value)) throw new SchemaProblem(`${path}.${key}`, "one value of each keyword", value);
    found[key] = value;
  }
  if (own.length > 0) {
    const apart = (one: string, ...others: readonly string[]): void => {
      const parts = others.filter((key) => found[key] !== undefined && own.includes(key) !== own.includes(one));
      if (found[one] !== undefined && parts.length > 0) throw new SchemaProblem(`${path}.${one}`, `${parts[0]} in the same schema`, found[one]);
    };
    apart("additionalProperties", "properties");
    apart("items", "prefixItems");
  }
  return found;
}

/** Whether no value fits both schemas, as far as their types and constants show. */
export function areDisjoint(one: unknown, other: unknown, resolve: (schema: unknown) => unknown, depth = 0): boolean {
  spend(1);
  const [a, b] = [resolve(one), resolve(other)];
  if (a === false || b === false) return true;
  if (!isObject(a) || !isObject(b) || depth > 8) return false;
  const [listA, listB] = [listOf(a), listOf(b)];
  if (listA !== undefined && listB !== undefined) {
    spend(Math.min(listA.size, listB.size));
    return listA.isDisjointFrom(listB);
  }
  const [typesA, typesB] = [a, b].map((schema) => (schema["type"] === undefined ? undefined : typesOf(schema, "")));
  if (typesA !== undefined && typesB !== undefined) {
    const common = (types: readonly TypeName[], type: TypeName): boolean => types.includes(type) || (type === "integer" && types.includes("number")) || (type === "number" && types.includes("integer"));
    if (!typesA.some((type) => common(typesB, type))) return true;
    if (typesA.join() !== "object" || typesB.join() !== "object") return false;
    const required = (schema: JsonSchemaObject): readonly unknown[] => (Array.isArray(schema["required"]) ? schema["required"] : []);
    const [propertiesA, propertiesB] = [a["properties"], b["properties"]];
    if (!isObject(propertiesA) || !isObject(propertiesB)) return false;
    const both = required(a).filter((name): name is string => typeof name === "string" && required(b).includes(name));
    return both.some((name) => name in propertiesA && name in propertiesB && areDisjoint(propertiesA[name], propertiesB[name], resolve, depth + 1));
  }
  return false;
}

/** Whether constants of one required property, or the schemas' own, tell all schemas apart: {@link areDisjoint} without comparing pairs. */
export function haveTag(schemas: readonly unknown[], resolve: (schema: unknown) => unknown): boolean {
  const resolved = schemas.map(resolve);
  const [first] = resolved;
  const ofObject = (schema: unknown, name: string): unknown => {
    if (!isObject(schema) || schema["type"] !== "object" || !isObject(schema["properties"]) || !Array.isArray(schema["required"])) return undefined;
    return schema["required"].includes(name) && Object.hasOwn(schema["properties"], name) ? resolve(schema["properties"][name]) : undefined;
  };
  const differ = (values: readonly unknown[]): boolean => {
    const seen = new Set<string>();
    return values.every((value) => {
      const list = isObject(value) ? listOf(value) : undefined;
      return list !== undefined && [...list].every((one) => seen.size < seen.add(one).size);
    });
  };
  if (differ(resolved)) return true;
  const names: readonly unknown[] = isObject(first) && Array.isArray(first["required"]) ? first["required"] : [];
  return names.slice(0, 16).some((name) => typeof name === "string" && differ(resolved.map((schema) => ofObject(schema, name))));
}

const lists = new WeakMap<JsonSchemaObject, { readonly list: ReadonlySet<string> | undefined }>();

/** The values of a schema that lists them, as JSON; remembered, because each schema is compared with many. */
function listOf(schema: JsonSchemaObject): ReadonlySet<string> | undefined {
  let found = lists.get(schema);
  if (found === undefined) {
    const { const: only, enum: values } = schema;
    const all: readonly unknown[] | undefined = only !== undefined ? [only] : Array.isArray(values) ? values : undefined;
    lists.set(schema, (found = { list: all && new Set(all.map(stringifyWithDigits)) }));
  }
  return found.list;
}
