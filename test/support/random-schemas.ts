/** Random JSON schemas whose values are of bounded size, and an independent check of values. Also usable outside bun's tests. */
import Ajv from "ajv/dist/2020.js";
import { isIPv4 } from "node:net";
import type { Random } from "./random.ts";

type Schema = Record<string, unknown>;

const words = ["name", "age", "a", "b", "key \"x\"", "ü", "tab\t", "", "list", "kind"] as const;
const patterns = [
  "^[A-Z]{2}-[0-9]{3}$", "a+b?", "^(?:x|yz){1,4}$", "^\\d{1,3}(\\.\\d{1,2})?$", "^[^a-z]{0,6}$", "^(?!x)[a-z]{1,5}$", "[\"\\\\]", "^\\p".replace("\\p", "p?q{0,2}$"), "^.{2,4}$", "^[\\w.]+@[a-z]{2,4}$",
  "^[à-ü]{1,3}$", "^\\u{1F600}?[\\s]$",
] as const;
export const formats: Readonly<Record<string, (text: string) => boolean>> = {
  date: (text) => isDate(text),
  time: (text) => isTime(text),
  "date-time": (text) => isDate(text.slice(0, 10)) && text[10] === "T" && isTime(text.slice(11)) && !Number.isNaN(Date.parse(text.replace(/(\.\d{3})\d+/, "$1"))),
  duration: (text) => /^P(?=.)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)$/.test(text),
  uuid: (text) => /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text),
  ipv4: (text) => isIPv4(text),
  hostname: (text) => text.length <= 253 && text.split(".").every((part) => /^[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?$/i.test(part)),
  email: (text) => /^[^@\s]+@[^@\s]+\.[a-z]{2,}$/i.test(text) && !text.includes(".."),
  uri: (text) => URL.canParse(text) && /^https?:/.test(text),
};

function isDate(text: string): boolean {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? [];
  if (year === undefined) return false;
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
}

function isTime(text: string): boolean {
  const [, hours, minutes, seconds, zone] = /^(\d\d):(\d\d):(\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  const [zoneHours, zoneMinutes] = (zone === "Z" ? "+00:00" : (zone ?? "")).slice(1).split(":");
  return Number(hours) < 24 && Number(minutes) < 60 && Number(seconds) < 60 && Number(zoneHours) < 24 && Number(zoneMinutes) < 60;
}

/** Shared by all schemas: compiling the meta-schema takes longer than compiling any of them. */
const ajv = new Ajv({ strict: false, formats });

/** A validator of JSON Schema 2020-12 that is not part of this library. */
export function validator(schema: unknown): (value: unknown) => boolean {
  const validate = ajv.compile(schema as object | boolean) as (value: unknown) => boolean;
  // The schema is not used again, and a long run has thousands.
  if (typeof schema === "object") ajv.removeSchema(schema as object);
  return validate;
}

/** A schema whose values are of bounded size. */
export function randomSchema(random: Random): unknown {
  const names = ["t", "u"];
  const shared = Object.fromEntries(names.map((name) => [name, one(random, 1, [])]));
  const schema = one(random, 3, names.map((name) => `#/$defs/${name}`));
  return JSON.stringify(schema).includes("$ref") && typeof schema === "object" ? { ...schema, $defs: shared } : schema;
}

function one(random: Random, depth: number, references: readonly string[]): Schema {
  const schema = ofKind(random, depth, references);
  if (random.below(10) === 0) schema["description"] = "Why not?";
  return schema;
}

function ofKind(random: Random, depth: number, references: readonly string[]): Schema {
  const kind = random.below(depth > 0 ? 15 : 8);
  const maybe = (share: number): boolean => random.below(100) < share;
  switch (kind) {
    case 0:
      return { type: random.pick(["null", "boolean"]) };
    case 1: {
      const least = random.below(400) - 200;
      return {
        type: "integer",
        [random.pick(["minimum", "exclusiveMinimum"])]: least,
        ...(maybe(70) ? { [random.pick(["maximum", "exclusiveMaximum"])]: least + 2 + random.below(random.pick([3, 500])) } : {}),
        ...(maybe(20) ? { multipleOf: 1 + random.below(3) } : {}),
      };
    }
    case 2: {
      const least = (random.below(4000) - 2000) / random.pick([1, 10, 100]);
      return { type: "number", ...(maybe(70) ? { [random.pick(["minimum", "exclusiveMinimum"])]: least } : {}), ...(maybe(70) ? { [random.pick(["maximum", "exclusiveMaximum"])]: Math.round(100 * (least + 0.5 + random.below(50) / 4)) / 100 } : {}) };
    }
    case 3: {
      const minLength = random.below(4);
      return { type: "string", ...(maybe(70) ? { minLength } : {}), maxLength: minLength + random.below(8) };
    }
    case 4:
      return { type: "string", pattern: random.pick(patterns), ...(maybe(30) ? { maxLength: 6 + random.below(4) } : {}) };
    case 5:
      return { type: "string", format: random.pick(Object.keys(formats)) };
    case 6:
      return { enum: Array.from({ length: 1 + random.below(4) }, () => random.pick([1, -2.5, "x", "\"q\"\n", "é😀", null, true, [1, "a"], { a: 1 }, ""])) };
    case 7:
      return { const: random.pick([0, "only", null, false, { a: [] }, "</x>"]) };
    case 8: {
      const minItems = random.below(3);
      return { type: "array", items: one(random, depth - 1, references), ...(maybe(70) ? { minItems } : {}), maxItems: minItems + random.below(3) };
    }
    case 9: {
      const prefixItems = Array.from({ length: 1 + random.below(3) }, () => one(random, depth - 1, references));
      return { type: "array", prefixItems, ...(maybe(40) ? { items: false } : { items: one(random, depth - 1, references), maxItems: prefixItems.length + random.below(2) }), ...(maybe(40) ? { minItems: random.below(prefixItems.length + 1) } : {}) };
    }
    case 10:
    case 11: {
      const names = random.distinct(1 + random.below(4), words.length).map((i) => words[i]!);
      const required = names.filter(() => maybe(60));
      const counted = maybe(15);
      return {
        type: "object",
        properties: Object.fromEntries(names.map((name) => [name, one(random, depth - 1, references)])),
        ...(maybe(80) ? { required } : {}),
        ...(counted || maybe(50) ? { additionalProperties: false } : {}),
        ...(counted ? { minProperties: random.below(Math.max(1, names.length)), maxProperties: Math.max(1, required.length) + random.below(2) } : {}),
      };
    }
    case 12:
      return { anyOf: Array.from({ length: 1 + random.below(3) }, () => one(random, depth - 1, references)) };
    case 13:
      return {
        oneOf: ["cat", "dog"].map((word, i) => ({ type: "object", properties: { kind: { const: word }, [words[i]!]: one(random, depth - 1, references) }, required: ["kind"] })),
      };
    default:
      return references.length > 0 ? { $ref: random.pick(references) } : { type: ["string", "null"], maxLength: 5 };
  }
}
