/** The grammar that the options of a generation ask for. */
import { lazily } from "../../arguments/schemas.ts";
import { invalid } from "../../arguments/checks.ts";
import { reading } from "../../arguments/reading.ts";
import { GatedDeltaError, UnsupportedError } from "../../errors.ts";
import type { AnswerFormat, CallFormat } from "../text/formats/answer-format.ts";
import { automatonOf } from "./expression.ts";
import { ExpressionProblem } from "./expression-reader.ts";
import { parseWithDigits, stringifyWithDigits } from "../text/json-digits.ts";
import { TooManyStates, mostStates as mostOfAutomaton } from "./automaton.ts";
import { TooMuchWork, withEffort } from "./effort.ts";
import { Grammar, GrammarTooLarge, choice } from "./grammar.ts";
import type { Part } from "./grammar.ts";
import { JsonGrammar } from "./json-grammar.ts";
import { SchemaProblem } from "./schema-problem.ts";
import { expectSmall } from "./schema-size.ts";
import { callsGrammar, noCalls, toolsOf } from "./tool-grammar.ts";

/** Options that constrain an answer. */
export interface ConstraintOptions {
  /**
   * The answer is a JSON value that fits this schema: a JSON Schema or a zod 4 schema. Keywords that would not be enforced are refused.
   * @default none
   */
  readonly schema?: object | boolean | undefined;
  /** The answer is a text of this grammar, in xgrammar's EBNF; the first rule is `root`. @default none */
  readonly grammar?: string | undefined;
  /** The whole answer matches this regular expression, with the meaning of the flag `u`. @default none */
  readonly regex?: string | RegExp | undefined;
  /**
   * Which tools of `session.chat` the answer calls: those that the model chooses (`"auto"`), none, at least one (`"required"`),
   * or one call of a certain tool. Except with `"auto"`, arguments of calls fit their schemas. Together with {@link schema},
   * `"auto"` lets the answer be calls instead of the value, and nothing else. @default "auto"; with `schema` no calls
   */
  readonly toolChoice?: "auto" | "none" | "required" | {
    /** The tool. */
    readonly name: string;
  } | undefined;
}

/** A grammar and its origin. */
export interface ConstraintGrammar {
  /** The option, for errors. */
  readonly argument: string;
  /** In xgrammar's EBNF. */
  readonly grammar: string;
  /** Whether the caller wrote the grammar. */
  readonly foreign: boolean;
  /** Whether the grammar's texts may have tool calls. */
  readonly calls: boolean;
}

/** The format and tools of a session's answers. */
export interface AnswerContext {
  readonly format: AnswerFormat | undefined;
  readonly tools: readonly object[];
}

/** The most steps to make a grammar, counting states, edges and schemas: about a second. */
const mostSteps = 1_000_000;

const zod = lazily(({ z }) => z);

/**
 * The grammar of a generation's options; undefined if there is no constraint.
 *
 * @throws {GatedDeltaError} that names the option, for wrong constraints and several at once; {@link UnsupportedError} for those that would
 *   not be enforced.
 */
export function constraintOf(op: string, options: ConstraintOptions, context: () => AnswerContext): ConstraintGrammar | undefined {
  const { schema, grammar, regex, toolChoice = "auto" } = options;
  const given = Object.entries({ schema, grammar, regex, toolChoice: toolChoice === "auto" || (toolChoice === "none" && schema !== undefined) ? undefined : toolChoice }).filter(([, value]) => value !== undefined);
  if (given.length > 1) throw invalid(op, given[1]![0], `no ${given[1]![0]} next to ${given[0]![0]}: one constraint at a time`, given[1]![1]);
  if (grammar !== undefined) return { argument: "grammar", grammar, foreign: true, calls: true };
  if (schema !== undefined) {
    const json = readSchema(op, schema);
    const value = (to: Grammar): Part => new JsonGrammar(to, json, "schema").root();
    const { format, tools: descriptions } = options.toolChoice === "auto" ? context() : noTools;
    const tools = toolsOf(descriptions);
    for (const { path, parameters } of tools) expectSmall(op, path, parameters);
    if (tools.length === 0 || format?.toolCall === undefined) return made(op, "schema", stringifyWithDigits(json), false, value);
    const call = writtenCall(op, format);
    return made(op, "schema", stringifyWithDigits([json, call, tools]), true, (to) => choice(value(to), callsGrammar(to, call, tools, true)));
  }
  if (regex !== undefined) return made(op, "regex", `${typeof regex} ${regex}`, false, (to) => to.automaton("text", ofRegex(op, regex), "plain"));
  if (toolChoice === "auto") return undefined;
  const { format, tools: descriptions } = context();
  if (toolChoice === "none") return format?.toolCall === undefined ? undefined : made(op, "toolChoice", `none ${format.toolCall.begin}`, true, (to) => noCalls(to, format)!);
  const tools = toolsOf(descriptions);
  const wanted = toolChoice === "required" ? tools : tools.filter(({ name }) => name === toolChoice.name);
  if (wanted.length === 0) {
    const names = tools.map(({ name }) => JSON.stringify(name)).join(" | ");
    throw invalid(op, toolChoice === "required" ? "toolChoice" : "toolChoice.name", names === "" ? "a session whose messages came with tools" : names, toolChoice === "required" ? toolChoice : toolChoice.name);
  }
  for (const { path, parameters } of wanted) expectSmall(op, path, parameters);
  const call = writtenCall(op, format);
  const several = toolChoice === "required";
  return made(op, "toolChoice", stringifyWithDigits([call, wanted, several]), true, (to) => callsGrammar(to, call, wanted, several));
}

const noTools: AnswerContext = { format: undefined, tools: [] };

/** How calls are written, if a grammar can express it. */
function writtenCall(op: string, format: AnswerFormat | undefined): CallFormat {
  const call = format?.toolCall;
  if (call !== undefined && call.syntax !== "python") return call;
  throw new UnsupportedError({ op, argument: "toolChoice", expected: "a chat template whose calls are JSON or between tags", received: call === undefined ? "one without calls" : "one whose calls are Python" });
}

/** Finished grammars by their options, since a server's requests often have the same. The last entry is the last one used. */
const grammars = new Map<string, ConstraintGrammar>();
const mostGrammars = 64;

/** @param from the text that the grammar is made of. */
function made(op: string, argument: string, from: string, calls: boolean, build: (grammar: Grammar) => Part): ConstraintGrammar {
  const key = `${argument} ${calls} ${from}`;
  const found = grammars.get(key) ?? { ...make(op, argument, build), calls };
  grammars.delete(key);
  grammars.set(key, found);
  if (grammars.size > mostGrammars) grammars.delete(grammars.keys().next().value!);
  return found;
}

function make(op: string, argument: string, build: (grammar: Grammar) => Part): Omit<ConstraintGrammar, "calls"> {
  const grammar = new Grammar();
  let written;
  try {
    written = withEffort(mostSteps, () => grammar.write(build(grammar)));
  } catch (error) {
    if (error instanceof SchemaProblem) throw new UnsupportedError({ op, argument: error.path, expected: error.expected, received: error.received, cause: error });
    if (error instanceof GrammarTooLarge) throw new UnsupportedError({ op, argument, expected: error.message, received: error.received, cause: error });
    if (error instanceof TooMuchWork) throw new UnsupportedError({ op, argument, expected: `a constraint whose strings, numbers and alternatives take at most ${mostSteps} steps to combine`, received: "more", cause: error });
    if (error instanceof TooManyStates) throw new UnsupportedError({ op, argument, expected: `lengths and limits that take at most ${mostOfAutomaton} states of an automaton`, received: "more", cause: error });
    throw error;
  }
  if (written === undefined) throw new GatedDeltaError("invalid-argument", { op, argument, expected: "a constraint that some text fits", received: "one that none of finite length fits" });
  return { argument, grammar: written, foreign: false };
}

/** A JSON Schema as plain JSON, also for a zod schema. */
function readSchema(op: string, value: object | boolean): unknown {
  if (typeof value === "boolean") return value;
  const schema = reading(op, "schema", () => {
    const json = "_zod" in value ? ofZod(op, value) : value;
    expectSmall(op, "schema", json);
    return json;
  });
  return reading(op, "schema", (): unknown => parseWithDigits(stringifyWithDigits(schema)));
}

function ofZod(op: string, schema: object): object {
  const { toJSONSchema } = zod();
  try {
    return toJSONSchema(schema as never, { io: "input" });
  } catch (cause) {
    const received = cause instanceof Error ? cause.message : "one that has none";
    throw new UnsupportedError({ op, argument: "schema", expected: "a schema of zod that has a JSON Schema", received, cause });
  }
}

function ofRegex(op: string, regex: string | RegExp) {
  if (typeof regex !== "string" && !/^[gudy]*$/.test(regex.flags)) throw new UnsupportedError({ op, argument: "regex", expected: "no flags but u, d, g and y", received: regex.flags });
  try {
    return automatonOf(typeof regex === "string" ? regex : regex.source, false);
  } catch (error) {
    if (!(error instanceof ExpressionProblem)) throw error;
    throw new UnsupportedError({ op, argument: "regex", expected: `a regular expression that is known here: ${error.message}`, received: String(regex), cause: error });
  }
}
