/**
 * The tools of `POST /v1/responses`. Chat templates know only functions: other forms that clients run become functions, and their calls
 * come back in the client's form.
 */
import { isRecord } from "../../checkpoint/json.ts";
import { parseWithDigits } from "../../model/text/json-digits.ts";
import { newId } from "../ids.ts";
import { Problem, unsupported } from "../problem.ts";
import type { ResponsesBody } from "./responses-schema.ts";

type Tool = NonNullable<ResponsesBody["tools"]>[number];

/** How a client knows the tool that the model sees as a function. */
interface ToolForm {
  readonly type: "function" | "custom";
  readonly name: string;
  readonly namespace: string | undefined;
}

/** A call as an item. */
export interface CallItem {
  readonly type: "function_call" | "custom_tool_call";
  readonly id: string;
  readonly [key: string]: unknown;
}

/** The name under which the model sees a tool of a namespace. */
export function seenName(name: string, namespace: string | null | undefined): string {
  if (typeof namespace !== "string" || namespace === "") return name;
  return `${namespace}${/(?:__|[./:])$/.test(namespace) ? "" : "__"}${name}`;
}

/** Tools of a body. */
export class ResponsesTools {
  /** The tools as chat templates read them. */
  readonly functions: object[] = [];
  /** The member of the body that each function comes from. */
  readonly members: string[] = [];
  readonly #forms = new Map<string, ToolForm>();

  /** @throws {Problem} for tools that the server would have to run. */
  constructor({ tools }: Pick<ResponsesBody, "tools">) {
    for (const [i, tool] of (tools ?? []).entries()) {
      const at = `tools[${i}]`;
      if (tool.type !== "namespace") this.#add(tool, undefined, "", at);
      else for (const [j, inner] of (tool.tools ?? []).entries()) this.#add(inner, named(tool, at), j === 0 ? tool.description ?? "" : "", `${at}.tools[${j}]`);
    }
  }

  /** @param about describes the namespace; given with its first tool. */
  #add(tool: Omit<Tool, "tools">, namespace: string | undefined, about: string, at: string): void {
    const { type, description, parameters, format } = tool;
    if (type !== "function" && type !== "custom") {
      const how = /^web_search/.test(type) ? ' (for Codex, web_search = "disabled" in its configuration)' : "";
      throw unsupported(`${at}.type`, `the server runs no tools: expected "function", "custom" or "namespace", got ${JSON.stringify(type)}${how}`);
    }
    const form: ToolForm = { type, name: named(tool, at), namespace };
    const name = seenName(form.name, namespace);
    this.#forms.set(name, form);
    const texts = [about, description ?? "", type === "custom" ? grammarOf(format) : ""].filter((text) => text !== "");
    const taken = type === "custom" ? { type: "object", properties: { input: { type: "string" } }, required: ["input"] } : parameters ?? { type: "object", properties: {} };
    this.members.push(at);
    this.functions.push({ type: "function", function: { name, ...(texts.length > 0 ? { description: texts.join("\n\n") } : {}), parameters: taken } });
  }

  /** A call in the client's form. */
  item({ name: seen, arguments: text }: { readonly name: string; readonly arguments: string }): CallItem {
    const { type, name, namespace } = this.#forms.get(seen) ?? { type: "function", name: seen, namespace: undefined };
    const common = { status: "completed", call_id: newId("call_"), name, ...(namespace === undefined ? {} : { namespace }) };
    return type === "custom" ? { id: newId("ctc_"), type: "custom_tool_call", ...common, input: inputOf(text) } : { id: newId("fc_"), type: "function_call", ...common, arguments: text };
  }
}

function named({ name }: Pick<Tool, "name">, at: string): string {
  if (typeof name === "string") return name;
  throw new Problem("invalid", `${at}.name: expected a text, got nothing`, { member: `${at}.name` });
}

/** The form of a custom tool's input, in words. */
function grammarOf(format: unknown): string {
  if (!isRecord(format) || format["type"] !== "grammar") return "";
  return `The input is a text of this grammar (${String(format["syntax"])}):\n${String(format["definition"])}`;
}

/** The input of a custom tool's call; arguments without one are the input themselves. */
function inputOf(text: string): string {
  const value = parseWithDigits(text);
  return isRecord(value) && typeof value["input"] === "string" ? value["input"] : text;
}
