/** The values that a schema lists, by `enum` and `const`. */
import { stringifyWithDigits } from "../text/json-digits.ts";
import { accepts } from "./automaton.ts";
import { merged, typesOf } from "./schema-keywords.ts";
import type { TypeName } from "./schema-keywords.ts";
import { SchemaProblem } from "./schema-problem.ts";
import type { JsonSchemaObject } from "./schema-problem.ts";
import { limitsOf, stringsOf } from "./schema-strings.ts";

/** The listed values that fit the other keywords, as JSON, each once. */
export function listedValues(schema: JsonSchemaObject, path: string): readonly string[] {
  const { const: only, enum: list } = schema;
  if (list !== undefined && !Array.isArray(list)) throw new SchemaProblem(`${path}.enum`, "an array of values", list);
  const values: unknown[] = list === undefined ? [only] : only === undefined ? list : list.filter((one) => stringifyWithDigits(one) === stringifyWithDigits(only));
  const { enum: _, ...rest } = merged(schema, "const", {}, path);
  const fitting = Object.keys(rest).length === 0 ? values : values.filter(fitsTo(rest, path));
  return [...new Set(fitting.map(stringifyWithDigits))];
}

/** Whether a value of a list fits the keywords next to the list. Their requirements are computed once, when a value needs them. */
function fitsTo(rest: JsonSchemaObject, path: string): (value: unknown) => boolean {
  let strings: { readonly found: ReturnType<typeof stringsOf> } | undefined;
  let limits: ReturnType<typeof limitsOf> | undefined;
  let types: readonly TypeName[] | undefined;
  return (value) => {
    const type = typeOf(value);
    types ??= typesOf(rest, path);
    if (!types.includes(type) && !(type === "integer" && types.includes("number"))) return false;
    if (typeof value === "string") {
      const { found } = (strings ??= { found: stringsOf(rest, path) });
      return found === undefined || accepts(found, value);
    }
    if (typeof value === "number" || typeof value === "bigint") {
      const { least, most } = (limits ??= limitsOf(rest, path));
      if (rest["multipleOf"] !== undefined) throw new SchemaProblem(`${path}.multipleOf`, "no list of values next to it", rest["multipleOf"]);
      return (least === undefined || value > least.value || (least.allowed && value === least.value)) && (most === undefined || value < most.value || (most.allowed && value === most.value));
    }
    if ((type === "object" || type === "array") && Object.keys(rest).some((key) => key !== "type")) {
      throw new SchemaProblem(path, "no other keywords next to a list with objects or arrays", Object.keys(rest).find((key) => key !== "type"));
    }
    return true;
  };
}

/** The type of a JSON value. */
function typeOf(value: unknown): TypeName {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "bigint") return "integer";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value as "string" | "boolean" | "object";
}
