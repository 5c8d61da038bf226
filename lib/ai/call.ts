/** A call of the SDK as a request for an answer. */
import type { LanguageModelV4CallOptions, SharedV4Warning } from "@ai-sdk/provider";
import { invalid } from "../arguments/checks.ts";
import { reading } from "../arguments/reading.ts";
import { isSignal } from "../arguments/signals.ts";
import { isRecord } from "../checkpoint/json.ts";
import { UnsupportedError, describe } from "../errors.ts";
import type { ConstraintOptions } from "../model/constraints/constraint-grammar.ts";
import type { GenerateOptions } from "../model/session/session-options.ts";
import type { AnswerRequest } from "../server/answer-request.ts";
import { constraintOptions } from "../server/constraint-options.ts";
import { messagesOf } from "./prompt.ts";

/** A call that was read. */
export interface Call {
  readonly request: AnswerRequest;
  /** The salt that the call names. */
  readonly salt: string | undefined;
  /** Warnings about settings that have no effect, or a different one. */
  readonly warnings: SharedV4Warning[];
}

/** The member of `providerOptions` that is read. */
const ownOptions = "gatedDelta";

/**
 * Reads a call.
 *
 * @throws {GatedDeltaError} that names the member at fault.
 */
export function readCall(op: string, call: LanguageModelV4CallOptions): Call {
  return reading(op, "", () => {
    if (!isRecord(call)) throw invalid(op, "", "a call's options", call);
    return read(op, call);
  });
}

function read(op: string, call: LanguageModelV4CallOptions): Call {
  for (const name of ["maxOutputTokens", "seed"] as const) if (call[name] != null && typeof call[name] !== "number") throw invalid(op, name, "a number", call[name]);
  if (call.abortSignal != null && !isSignal(call.abortSignal)) throw invalid(op, "abortSignal", "an AbortSignal", call.abortSignal);
  const warnings: SharedV4Warning[] = [];
  const { salt, variables, ...own } = ownOf(op, call.providerOptions?.[ownOptions]);
  const tools = toolsOf(op, call.tools, warnings);
  const { reasoning = "provider-default" } = call;
  if (reasoning !== "provider-default" && reasoning !== "none") {
    warnings.push({ type: "compatibility", feature: "reasoning", details: "the model thinks or does not: levels of effort are one" });
  }
  const thinks = reasoning === "provider-default" ? {} : { enable_thinking: reasoning !== "none" };
  const given: GenerateOptions = {
    maxTokens: call.maxOutputTokens,
    temperature: call.temperature,
    topP: call.topP,
    topK: call.topK,
    presencePenalty: call.presencePenalty,
    frequencyPenalty: call.frequencyPenalty,
    stop: call.stopSequences,
    seed: call.seed,
    ...constraintOf(op, call, tools.length > 0),
  };
  const settings = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== null));
  return {
    request: { prompt: { messages: messagesOf(op, call.prompt), tools, variables: { ...thinks, ...variables } }, options: { ...own, ...settings }, answers: 1, severalCalls: true },
    salt,
    warnings,
  };
}

interface OwnOptions extends GenerateOptions {
  readonly salt?: string;
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** Options that are used in arithmetic before the session checks them. */
const numbers = ["maxTokens", "minTokens", "maxReasoningTokens", "seed"] as const;

/** The options of a call that are this library's. The session checks the options of a generation. */
function ownOf(op: string, value: unknown = {}): OwnOptions {
  const at = `providerOptions.${ownOptions}`;
  if (!isRecord(value)) throw invalid(op, at, "an object of options", value);
  const { salt, variables, signal, onProgress, processors } = value;
  if (salt !== undefined && typeof salt !== "string") throw invalid(op, `${at}.salt`, "a text", salt);
  if (variables !== undefined && !isRecord(variables)) throw invalid(op, `${at}.variables`, "an object of values for the chat template", variables);
  for (const [name, one] of Object.entries({ signal, onProgress, processors })) if (one !== undefined) throw invalid(op, `${at}.${name}`, "values of JSON alone", one);
  for (const name of ["logprobs", "topLogprobs"] as const) {
    const one = value[name];
    if (one) throw new UnsupportedError({ op, argument: `${at}.${name}`, expected: "none: the SDK's answers have no probabilities", received: describe(one) });
  }
  for (const name of numbers) if (value[name] !== undefined && typeof value[name] !== "number") throw invalid(op, `${at}.${name}`, "a number", value[name]);
  return value as OwnOptions;
}

/** The functions of a call, in the form that chat templates read. */
function toolsOf(op: string, given: LanguageModelV4CallOptions["tools"], warnings: SharedV4Warning[]): object[] {
  const tools = given ?? [];
  if (!Array.isArray(tools)) throw invalid(op, "tools", "an array of tools", tools);
  return tools.flatMap((tool, i) => {
    if (!isRecord(tool)) throw invalid(op, `tools[${i}]`, "a tool", tool);
    if (tool.type === "function") {
      const { name, description, inputSchema: parameters } = tool;
      return [{ type: "function", function: { name, ...(description === undefined ? {} : { description }), parameters } }];
    }
    warnings.push({ type: "unsupported", feature: `tool ${tool.id}`, details: "this provider runs no tools" });
    return [];
  });
}

/** The types of choices among tools. */
const choices: readonly string[] = ["auto", "none", "required", "tool"];

function constraintOf(op: string, { responseFormat: format, toolChoice: choice = { type: "auto" } }: LanguageModelV4CallOptions, tools: boolean): ConstraintOptions {
  if (!isRecord(choice)) throw invalid(op, "toolChoice", "an object with a type", choice);
  const { type } = choice;
  if (!choices.includes(type)) throw invalid(op, "toolChoice.type", choices.map((one) => JSON.stringify(one)).join(" | "), type);
  if (!tools && (type === "required" || type === "tool")) throw invalid(op, "toolChoice.type", '"auto" or "none" where no tool is a function', type);
  if (type === "tool" && typeof choice.toolName !== "string") throw invalid(op, "toolChoice.toolName", "the name of a tool", choice.toolName);
  const schema = format?.type === "json" ? format.schema ?? { type: "object" } : undefined;
  return constraintOptions(schema, type === "tool" ? { name: choice.toolName } : type, tools);
}
