/** Grammars of answers that call tools, in the format of a model's chat template. */
import { isRecord } from "../../checkpoint/json.ts";
import type { AnswerFormat, CallFormat } from "../text/formats/answer-format.ts";
import { both, complement } from "./automaton.ts";
import { spend } from "./effort.ts";
import { automatonOf } from "./expression.ts";
import { Grammar, choice, nothing, rule, sequence, text } from "./grammar.ts";
import type { Part } from "./grammar.ts";
import { JsonGrammar, deepest, stepsOfSchema } from "./json-grammar.ts";
import { isObject, merged, refuseUnknown, typesOf } from "./schema-keywords.ts";
import { SchemaProblem } from "./schema-problem.ts";
import type { JsonSchemaObject } from "./schema-problem.ts";
import { stringsOf } from "./schema-strings.ts";

/** A tool, from its description. */
interface Tool {
  readonly name: string;
  readonly parameters: unknown;
  readonly path: string;
}

/** The tools of descriptions `{ name, parameters }` or `{ function: { name, parameters } }`. */
export function toolsOf(descriptions: readonly object[]): Tool[] {
  return descriptions.flatMap((one, i) => {
    const inner = isRecord(one) && isRecord(one["function"]) ? one["function"] : one;
    if (!isRecord(inner) || typeof inner["name"] !== "string") return [];
    const parameters = inner["parameters"] ?? inner["input_schema"] ?? { type: "object", properties: {} };
    return [{ name: inner["name"], parameters, path: `tools[${i}].parameters` }];
  });
}

/** One or more calls of any of the tools, and nothing else; one call of a single tool. */
export function callsGrammar(grammar: Grammar, format: CallFormat, tools: readonly Tool[], several: boolean): Part {
  const calls = choice(...tools.map((tool) => callOf(grammar, format, { ...tool, parameters: ofObjects(tool) })));
  const call = sequence(text(`${format.begin}\n`), calls, text(format.end));
  if (!several) return call;
  const name = grammar.name("calls");
  return grammar.set(name, sequence(call, choice(nothing, sequence(text("\n"), rule(name)))));
}

/** Any text without the beginning of a call. */
export function noCalls(grammar: Grammar, { toolCall }: AnswerFormat): Part | undefined {
  if (toolCall === undefined) return undefined;
  return grammar.automaton("text", complement(automatonOf(literal(toolCall.begin), true)), "plain");
}

const literal = (of: string): string => of.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/** The schema of a call's arguments, which are an object: without a type it would allow any value. */
function ofObjects({ parameters, path }: Tool): unknown {
  if (parameters === true) return { type: "object" };
  if (!isObject(parameters) || parameters["$ref"] !== undefined || parameters["type"] === "object") return parameters;
  const { type } = parameters;
  if (type !== undefined && !(Array.isArray(type) && type.includes("object"))) throw new SchemaProblem(`${path}.type`, '"object"', type);
  return { ...parameters, type: "object" };
}

function callOf(grammar: Grammar, format: CallFormat, tool: Tool): Part {
  const { name, parameters, path } = tool;
  if (format.syntax === "xml") return sequence(text(`<function=${name}>\n`), xmlArguments(grammar, format, tool), text("</function>\n"));
  const value = new JsonGrammar(grammar, parameters, path).root();
  return sequence(text(`{"name": ${JSON.stringify(name)}, "arguments": `), value, text("}\n"));
}

/** Arguments in the schema's order, each between its tags. */
function xmlArguments(grammar: Grammar, { end }: CallFormat, { parameters, path }: Tool): Part {
  const json = new JsonGrammar(grammar, parameters, path);
  const schema = isObject(parameters) ? parameters : {};
  refuseUnknown(schema, path);
  const { properties = {}, required = [] } = schema;
  const others = Object.keys(merged(schema, "properties", {}, path)).filter((key) => !["type", "required"].includes(key) && !(key === "additionalProperties" && schema[key] === false));
  if (!isObject(properties) || !Array.isArray(required) || others.length > 0) throw new SchemaProblem(path, "an object with properties and required, for calls between tags", others[0] ?? schema);
  const missing = required.find((name) => typeof name !== "string" || !Object.hasOwn(properties, name));
  if (missing !== undefined) throw new SchemaProblem(`${path}.required`, "names of properties", missing);
  // Tags that may end a value.
  const plain = complement(automatonOf(`</parameter>|</function>|${literal(end)}|^<parameter=|\\n<parameter=`, true));
  const value = (one: unknown, at: string): Part => {
    const alternatives = alternativesOf(json, one, at);
    return choice(...alternatives.map((alternative) => {
      if (!isObject(alternative) || typesOf(alternative, at).join() !== "string" || alternative["const"] !== undefined) return json.value(alternative, at);
      const listed = alternative["enum"];
      if (Array.isArray(listed)) return choice(...listed.map((word) => text(String(word))));
      const strings = stringsOf(alternative, at);
      return grammar.automaton("argument", strings === undefined ? plain : both(plain, strings), "plain");
    }));
  };
  return sequence(...Object.entries(properties).map(([name, one]) => {
    const argument = sequence(text(`<parameter=${name}>\n`), value(one, `${path}.properties.${name}`), text("\n</parameter>\n"));
    return required.includes(name) ? argument : choice(nothing, argument);
  }));
}

/** Schemas of one type each, one of which a value fits: strings are written without quotes, other values as JSON. */
function alternativesOf(json: JsonGrammar, schema: unknown, path: string, depth = 0): readonly unknown[] {
  if (depth > deepest) throw new SchemaProblem(path, `at most ${deepest} schemas within each other`, schema);
  spend(stepsOfSchema);
  const resolved = json.resolved(schema, path);
  if (!isObject(resolved)) return [resolved];
  refuseUnknown(resolved, path);
  const { anyOf, const: only, enum: list } = resolved;
  if (Array.isArray(anyOf)) return anyOf.flatMap((one: unknown, i) => alternativesOf(json, isObject(one) ? merged(resolved, "anyOf", one, path) : one, `${path}.anyOf[${i}]`, depth + 1));
  if (only !== undefined || list !== undefined) {
    const values: readonly unknown[] = Array.isArray(list) ? list : [only];
    const strings = values.filter((value) => typeof value === "string");
    const others = values.filter((value) => typeof value !== "string");
    const rest: JsonSchemaObject = merged(merged(resolved, "const", {}, path), "enum", {}, path);
    return [...(strings.length > 0 ? [{ type: "string", enum: strings }] : []), ...(others.length > 0 ? [{ ...rest, enum: others }] : [])];
  }
  if (resolved["oneOf"] !== undefined || resolved["allOf"] !== undefined) return [resolved];
  return typesOf(resolved, path).map((type) => ({ ...resolved, type }));
}
