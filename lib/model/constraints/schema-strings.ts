/** The strings and numbers that a schema allows, as automata. */
import { TooManyStates, both, complement, mostStates, ofLength, ofTexts } from "./automaton.ts";
import type { Automaton } from "./automaton.ts";
import { automatonOf } from "./expression.ts";
import { ExpressionProblem } from "./expression-reader.ts";
import { integersWithin, multiplesOf, numbersWithin } from "./number-range.ts";
import type { Limits } from "./number-range.ts";
import { SchemaProblem } from "./schema-problem.ts";
import type { JsonSchemaObject } from "./schema-problem.ts";

const day = "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))";
const leapYear = "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
const date = `(?:\\d{4}-${day}|${leapYear}-02-29)`;
const time = "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
const byte = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,20}[A-Za-z0-9])?";
const hostname = `(?:${label}\\.){0,4}${label}`;
const domain = `(?:${label}\\.){1,4}[A-Za-z]{2,20}`;

/** Texts of the known formats; for some formats only the usual ones. */
const formats: Readonly<Record<string, string>> = {
  date,
  time,
  "date-time": `${date}T${time}`,
  duration: "P(?:\\d{1,4}W|(?:\\d{1,4}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D)(?:T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S))?|T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S))",
  uuid: "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
  ipv4: `(?:${byte}\\.){3}${byte}`,
  hostname,
  email: `[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@${domain}`,
  uri: `https?://${domain}(?::[1-9]\\d{0,3})?(?:/[A-Za-z0-9._~-]+)*/?(?:\\?[A-Za-z0-9._~=&-]+)?(?:#[A-Za-z0-9._~-]+)?`,
};

const formatAutomata = new Map<string, Automaton>();

function ofFormat(source: string): Automaton {
  let found = formatAutomata.get(source);
  if (found === undefined) formatAutomata.set(source, (found = automatonOf(source, false)));
  return found;
}

/** Names of the known formats. */
export const formatNames = Object.keys(formats);

/** Strings of a schema; undefined if it allows all. */
export function stringsOf(schema: JsonSchemaObject, path: string): Automaton | undefined {
  const { pattern, format, minLength, maxLength } = schema;
  const parts: Automaton[] = [];
  if (pattern !== undefined) {
    if (typeof pattern !== "string") throw new SchemaProblem(`${path}.pattern`, "a text", pattern);
    parts.push(expression(pattern, true, `${path}.pattern`));
  }
  if (format !== undefined) {
    const known = typeof format === "string" && Object.hasOwn(formats, format) ? formats[format] : undefined;
    // If a pattern defines the strings, the format is only their name.
    if (known === undefined && pattern === undefined) throw new SchemaProblem(`${path}.format`, formatNames.map((name) => JSON.stringify(name)).join(" | "), format);
    if (known !== undefined && pattern === undefined) parts.push(ofFormat(known));
  }
  const [least, most] = [countOf(schema, "minLength", path) ?? 0, countOf(schema, "maxLength", path) ?? Infinity];
  if (minLength !== undefined || maxLength !== undefined) parts.push(statesAt(path, () => ofLength(least, most)));
  if (parts.length === 0) return undefined;
  return statesAt(path, () => parts.reduce((one, other) => both(one, other)));
}

/** Makes an automaton. If it is too large, the error names the schema. */
function statesAt(path: string, make: () => Automaton): Automaton {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof TooManyStates)) throw error;
    throw new SchemaProblem(path, `lengths and limits that take at most ${mostStates} states of an automaton`, "more");
  }
}

function expression(source: string, search: boolean, path: string): Automaton {
  try {
    return automatonOf(source, search);
  } catch (error) {
    if (!(error instanceof ExpressionProblem)) throw error;
    throw new SchemaProblem(path, `a regular expression that is known here: ${error.message}`, source);
  }
}

/** The largest length or count in a schema: each step takes a grammar rule. */
const largestCount = 10_000;

/** A length or count in a schema. */
export function countOf(schema: JsonSchemaObject, key: string, path: string): number | undefined {
  const value = schema[key];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= largestCount) return value;
  throw new SchemaProblem(`${path}.${key}`, `an integer in 0..${largestCount}`, value);
}

/** Numbers of a schema. */
export function numbersOf(schema: JsonSchemaObject, path: string, integer: boolean): Automaton {
  const limits = limitsOf(schema, path);
  const { multipleOf } = schema;
  if (multipleOf !== undefined && !(integer && typeof multipleOf === "number" && Number.isInteger(multipleOf) && multipleOf >= 1 && multipleOf <= 1000)) {
    throw new SchemaProblem(`${path}.multipleOf`, "an integer in 1..1000, for an integer", multipleOf);
  }
  if (integer) {
    const within = integersWithin(limits);
    return multipleOf === undefined ? within : statesAt(`${path}.multipleOf`, () => both(within, multiplesOf(multipleOf as number)));
  }
  const found = numbersWithin(limits);
  if (found === undefined) throw new SchemaProblem(path, "limits of at most 14 digits, without an exponent", schema);
  return found;
}

/** The most digits of a limit: those of the largest number. Only bigints have more. */
const mostDigits = 309;
const tooLong = 10n ** BigInt(mostDigits);

/** The limits of a schema's numbers. */
export function limitsOf(schema: JsonSchemaObject, path: string): Limits {
  const limit = (key: string) => {
    const value = schema[key];
    if (typeof value === "bigint" && (value >= tooLong || value <= -tooLong)) throw new SchemaProblem(`${path}.${key}`, `a number of at most ${mostDigits} digits`, "more digits");
    if (value === undefined || typeof value === "bigint" || (typeof value === "number" && Number.isFinite(value))) return value;
    throw new SchemaProblem(`${path}.${key}`, "a number", value);
  };
  const tighter = (allowed: number | bigint | undefined, open: number | bigint | undefined, sign: 1 | -1) => {
    if (allowed === undefined) return open === undefined ? undefined : { value: open, allowed: false };
    return open !== undefined && (sign === 1 ? open >= allowed : open <= allowed) ? { value: open, allowed: false } : { value: allowed, allowed: true };
  };
  return {
    least: tighter(limit("minimum"), limit("exclusiveMinimum"), 1),
    most: tighter(limit("maximum"), limit("exclusiveMaximum"), -1),
  };
}

/** Strings other than the texts. */
export const otherThan = (texts: readonly string[]): Automaton => complement(ofTexts(texts));
