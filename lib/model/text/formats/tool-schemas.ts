import { reading } from "../../../arguments/reading.ts";
import { isRecord } from "../../../checkpoint/json.ts";
import { plain } from "../chat-messages.ts";
import { stringType, typeOf } from "./argument-types.ts";
import type { ArgumentType } from "./argument-types.ts";

/** The parameters of tools by their schemas. */
export class ToolSchemas {
  /** The schema of each tool's parameters; undefined if it has none. */
  readonly #parameters = new Map<string, unknown>();

  /**
   * @param tools descriptions of functions, each a `{ name, parameters }` or a `{ function: { name, parameters } }`; others are skipped.
   * @throws {GatedDeltaError} of code `invalid-argument` for values that JSON can't hold.
   */
  constructor(op: string, tools: readonly object[]) {
    for (const tool of reading(op, "tools", () => plain<readonly unknown[]>(tools)).value) {
      const described = isRecord(tool) && isRecord(tool["function"]) ? tool["function"] : tool;
      if (isRecord(described) && typeof described["name"] === "string") this.#parameters.set(described["name"], described["parameters"] ?? described["input_schema"]);
    }
  }

  has(tool: string): boolean {
    return this.#parameters.has(tool);
  }

  /** Whether a tool has a parameter of this name. If its parameters are unknown, it may have any. */
  mayHave(tool: string, name: string): boolean {
    const properties = this.#properties(tool);
    return properties === undefined || Object.hasOwn(properties, name);
  }

  /** The type of a parameter; a string if no schema describes it. */
  typeOf(tool: string, name: string): ArgumentType {
    const [root, properties] = [this.#parameters.get(tool), this.#properties(tool)];
    const others = isRecord(root) && isRecord(root["additionalProperties"]) ? root["additionalProperties"] : undefined;
    const schema = properties !== undefined && Object.hasOwn(properties, name) ? properties[name] : others;
    return schema === undefined ? stringType : typeOf(schema, root);
  }

  /** The required parameters that are not among the given ones. */
  missing(tool: string, given: ReadonlySet<string>): string[] {
    const root = this.#parameters.get(tool);
    const required = isRecord(root) ? root["required"] : undefined;
    return Array.isArray(required) ? required.filter((name): name is string => typeof name === "string" && !given.has(name)) : [];
  }

  #properties(tool: string): Readonly<Record<string, unknown>> | undefined {
    const root = this.#parameters.get(tool);
    return isRecord(root) && isRecord(root["properties"]) ? root["properties"] : undefined;
  }
}
