/**
 * Grammars of JSON that fits a schema (JSON Schema 2020-12). Every text of the grammar is valid, but not every valid text is in the
 * grammar: properties come in the schema's order, other properties only where `additionalProperties` asks for them, and whitespace
 * only where programs write it. Keywords that would not be enforced are refused.
 */
import { accepts, both, ofTexts } from "./automaton.ts";
import type { Automaton } from "./automaton.ts";
import { spend } from "./effort.ts";
import { automatonOf } from "./expression.ts";
import { Grammar, choice, never, nothing, rule, sequence, text } from "./grammar.ts";
import type { Part } from "./grammar.ts";
import { anyString } from "./json-string.ts";
import { listedValues } from "./schema-lists.ts";
import { SchemaProblem } from "./schema-problem.ts";
import type { JsonSchemaObject } from "./schema-problem.ts";
import { areDisjoint, haveTag, isObject, keywordsOf, merged, refuseUnknown, typesOf } from "./schema-keywords.ts";
import type { TypeName } from "./schema-keywords.ts";
import { countOf, numbersOf, otherThan, stringsOf } from "./schema-strings.ts";

/** The deepest nesting of schemas. */
export const deepest = 200;

/** The steps that a schema counts as for {@link spend}, not including its automata. */
export const stepsOfSchema = 20;

/** References that lead to a value without an object or array around it. */
type Open = readonly string[];

/** The parts of an object's grammar. */
interface Members {
  readonly members: readonly { readonly name: string; readonly required: boolean; readonly value: Part }[];
  /** The least and largest number of members. */
  readonly least: number;
  readonly most: number;
  /** The values of other properties, if any are allowed, and the names that properties may have. */
  readonly others: Part | undefined;
  readonly keys: Automaton | undefined;
}

export class JsonGrammar {
  readonly grammar: Grammar;
  readonly #root: unknown;
  readonly #path: string;
  readonly #references = new Map<string, Part>();
  #depth = 0;

  /** @param path the name of the schema, for problems. */
  constructor(grammar: Grammar, root: unknown, path: string) {
    this.grammar = grammar;
    this.#root = root;
    this.#path = path;
  }

  /** The values of the whole schema. */
  root(): Part {
    return this.value(this.#root, this.#path);
  }

  /**
   * The values of a schema.
   *
   * @throws {SchemaProblem}
   */
  value(schema: unknown, path: string, open: Open = []): Part {
    if (schema === true) return this.#any();
    if (schema === false) return never;
    if (!isObject(schema)) throw new SchemaProblem(path, "a schema: an object or a boolean", schema);
    if (++this.#depth > deepest) throw new SchemaProblem(path, `at most ${deepest} schemas within each other`, schema);
    try {
      spend(stepsOfSchema);
      refuseUnknown(schema, path);
      return this.#ofKeywords(schema, path, open);
    } finally {
      this.#depth--;
    }
  }

  #ofKeywords(schema: JsonSchemaObject, path: string, open: Open): Part {
    const { $ref, anyOf, oneOf, allOf } = schema;
    if ($ref !== undefined) return this.#reference($ref, merged(schema, "$ref", {}, path), path, open);
    for (const [key, list] of Object.entries({ anyOf, oneOf, allOf })) {
      if (list === undefined) continue;
      if (!Array.isArray(list) || list.length === 0) throw new SchemaProblem(`${path}.${key}`, "an array of schemas", list);
      if (key === "allOf" && list.length > 1) throw new SchemaProblem(`${path}.allOf`, "one schema", `${list.length}`);
      if (key === "oneOf") this.#expectDisjoint(list, `${path}.oneOf`);
      return choice(...list.map((one: unknown, i) => this.#branch(schema, key, one, `${path}.${key}[${i}]`, open)));
    }
    if (schema["const"] !== undefined || schema["enum"] !== undefined) return { kind: "choice", parts: listedValues(schema, path).map(text) };
    return choice(...typesOf(schema, path).map((type) => this.#ofType(type, schema, path)));
  }

  /** One of several schemas, with the keywords next to them. */
  #branch(schema: JsonSchemaObject, key: string, one: unknown, path: string, open: Open): Part {
    const rest = merged(schema, key, {}, path);
    if (Object.keys(rest).length === 0 || typeof one === "boolean") return one === true ? this.value(rest, path, open) : this.value(one, path, open);
    const target = this.resolved(one, path);
    if (!isObject(target)) throw new SchemaProblem(path, "a schema: an object or a boolean", target);
    return this.value(merged(schema, key, target, path), path, open);
  }

  /** A schema, or the schema that it refers to. */
  resolved(schema: unknown, path: string): unknown {
    let found = schema;
    for (let steps = 0; isObject(found) && found["$ref"] !== undefined; steps++) {
      if (steps > deepest) throw new SchemaProblem(`${path}.$ref`, "a reference that does not lead to itself", found["$ref"]);
      found = this.#resolved(found["$ref"], path);
    }
    return found;
  }

  #expectDisjoint(list: readonly unknown[], path: string): void {
    const resolve = (schema: unknown): unknown => this.resolved(schema, path);
    if (haveTag(list, resolve)) return;
    for (const [i, one] of list.entries()) {
      spend(i);
      for (let j = 0; j < i; j++) {
        if (!areDisjoint(list[j], one, resolve)) throw new SchemaProblem(path, "schemas of which at most one fits: of different types, or with different constants in a required property", `[${j}] and [${i}]`);
      }
    }
  }

  /** The schema that a reference names. */
  #resolved(reference: unknown, path: string): unknown {
    if (typeof reference !== "string" || !/^#(?:\/|$)/.test(reference)) throw new SchemaProblem(`${path}.$ref`, 'a reference within the schema, such as "#/$defs/name"', reference);
    let found = this.#root;
    for (const part of reference.split("/").slice(1)) {
      const key = decoded(part, reference, path).replaceAll("~1", "/").replaceAll("~0", "~");
      found = (isObject(found) && Object.hasOwn(found, key)) || (Array.isArray(found) && /^\d+$/.test(key)) ? (found as JsonSchemaObject)[key] : undefined;
      if (found === undefined) throw new SchemaProblem(`${path}.$ref`, "a reference to a schema that is there", reference);
    }
    return found;
  }

  #reference(reference: unknown, rest: JsonSchemaObject, path: string, open: Open): Part {
    if (Object.keys(rest).length > 0) throw new SchemaProblem(`${path}.$ref`, "no other keywords next to a reference", Object.keys(rest)[0]);
    const schema = this.#resolved(reference, path);
    const key = String(reference);
    if (open.includes(key)) throw new SchemaProblem(`${path}.$ref`, "a reference that does not lead to itself", reference);
    const known = this.#references.get(key);
    if (known !== undefined) return known;
    const name = this.grammar.name("ref");
    this.grammar.set(name, never);
    this.#references.set(key, rule(name));
    this.grammar.set(name, this.value(schema, this.#path + key.slice(1).replaceAll("/", "."), [...open, key]));
    return rule(name);
  }

  #ofType(type: TypeName, schema: JsonSchemaObject, path: string): Part {
    switch (type) {
      case "null":
        return text("null");
      case "boolean":
        return choice(text("true"), text("false"));
      case "integer":
      case "number":
        return this.grammar.shared(`${type} ${keywordsOf(schema, "number")}`, () => this.grammar.automaton(type, numbersOf(schema, path, type === "integer"), "plain", nothing, "number"));
      case "string":
        return this.grammar.shared(`string ${keywordsOf(schema, "string")}`, () => {
          const strings = stringsOf(schema, path);
          return strings === undefined ? anyString(this.grammar) : sequence(text('"'), this.grammar.automaton("chars", strings, "json", text('"'), "string"));
        });
      case "array":
        return this.#array(schema, path);
      case "object":
        return this.#object(schema, path);
    }
  }

  /** Whitespace between two parts. */
  get #blank(): Part {
    if (!this.grammar.has("blank")) this.grammar.set("blank", this.grammar.automaton("blank_part", automatonOf("(?: |\\n[ \\t]{0,20})?", false), "plain"));
    return rule("blank");
  }

  /** Any value. */
  #any(): Part {
    if (this.grammar.has("value")) return rule("value");
    this.grammar.set("value", never);
    const number = this.grammar.automaton("number", numbersOf({}, this.#path, false), "plain", nothing, "number");
    return this.grammar.set("value", choice(this.#object({}, this.#path), this.#array({}, this.#path), anyString(this.grammar), number, text("true"), text("false"), text("null")));
  }

  #array(schema: JsonSchemaObject, path: string): Part {
    const { prefixItems = [], items = true } = schema;
    if (!Array.isArray(prefixItems)) throw new SchemaProblem(`${path}.prefixItems`, "an array of schemas", prefixItems);
    const least = countOf(schema, "minItems", path) ?? 0;
    const most = countOf(schema, "maxItems", path) ?? Infinity;
    const first = prefixItems.map((one: unknown, i) => this.value(one, `${path}.prefixItems[${i}]`));
    const others = this.value(items, `${path}.items`);
    return this.grammar.shared(JSON.stringify(["array", first, others, least, String(most)]), () => this.#items(first, others, least, most));
  }

  #items(first: readonly Part[], others: Part, least: number, most: number): Part {
    const last = most === Infinity ? Math.max(first.length, least, 1) : most;
    const name = this.grammar.name("array");
    const after = (i: number): string => `${name}_${i}`;
    const blank = this.#blank;
    for (let i = 0; i <= last; i++) {
      const ways: Part[] = [];
      if (i >= least) ways.push(text("]"));
      if (i < most) ways.push(sequence(i === 0 ? nothing : sequence(text(","), blank), first[i] ?? others, blank, rule(after(Math.min(i + 1, last)))));
      this.grammar.set(after(i), choice(...ways));
    }
    return sequence(text("["), blank, rule(after(0)));
  }

  #object(schema: JsonSchemaObject, path: string): Part {
    const { properties = {}, required = [], propertyNames } = schema;
    if (!isObject(properties)) throw new SchemaProblem(`${path}.properties`, "an object of schemas", properties);
    if (!Array.isArray(required) || required.some((one) => typeof one !== "string")) throw new SchemaProblem(`${path}.required`, "an array of names", required);
    const keys = propertyNames === undefined ? undefined : this.#names(propertyNames, `${path}.propertyNames`);
    const listed = new Set(Object.keys(properties));
    const needed = new Set(required as string[]);
    const { additionalProperties: additional = listed.size === 0 } = schema;
    const missing = [...needed].filter((name) => !listed.has(name));
    const members = [...listed, ...missing].map((name) => ({
      name,
      required: needed.has(name),
      value: keys !== undefined && !accepts(keys, name) ? never
        : listed.has(name) ? this.value(properties[name], `${path}.properties.${name}`)
        : this.value(schema["additionalProperties"] ?? true, `${path}.additionalProperties`),
    }));
    const [least, most] = [countOf(schema, "minProperties", path) ?? 0, countOf(schema, "maxProperties", path) ?? Infinity];
    if ((least > 0 || most < Infinity) && additional !== false) throw new SchemaProblem(path, "additionalProperties: false next to minProperties and maxProperties", additional);
    const others = additional === false ? undefined : this.value(additional, `${path}.additionalProperties`);
    const make = (): Part => this.#members({ members, least, most, others, keys });
    return keys === undefined ? this.grammar.shared(JSON.stringify(["object", members, least, String(most), others ?? null]), make) : make();
  }

  #members({ members, least, most, others, keys }: Members): Part {
    const counted = least > 0 || most < Infinity;
    // Members beyond this number make no difference.
    const cap = counted ? Math.min(most === Infinity ? Math.max(least, 1) : most, members.length + 1) : 1;
    const name = this.grammar.name("object");
    const at = (i: number, count: number): string => `${name}_${i}_${count}`;
    const blank = this.#blank;
    const comma = (count: number): Part => (count === 0 ? nothing : sequence(text(","), blank));
    let optional = 0; // members in a row from here on that may be left out
    for (let i = members.length; i >= 0; i--) {
      const member = members[i];
      optional = member?.required === false ? optional + 1 : 0;
      this.grammar.leaves(optional * cap);
      for (let count = 0; count <= cap; count++) {
        const ways: Part[] = [];
        if (member === undefined) {
          if (count >= least) ways.push(text("}"));
          if (others !== undefined) ways.push(sequence(comma(count), rule(`${name}_more`)));
        } else {
          if (count < most) ways.push(sequence(comma(count), text(`${JSON.stringify(member.name)}:`), blank, member.value, blank, rule(at(i + 1, Math.min(count + 1, cap)))));
          if (!member.required) ways.push(rule(at(i + 1, count)));
        }
        this.grammar.set(at(i, count), choice(...ways));
      }
    }
    if (others !== undefined) {
      const free = members.length === 0 ? keys : keys === undefined ? otherThan(members.map((one) => one.name)) : both(keys, otherThan(members.map((one) => one.name)));
      const key = free === undefined ? anyString(this.grammar) : sequence(text('"'), this.grammar.automaton("key", free, "json", text('"'), "string"));
      this.grammar.set(`${name}_more`, sequence(key, text(":"), blank, others, blank, rule(at(members.length, 1))));
    }
    return sequence(text("{"), blank, rule(at(0, 0)));
  }

  /** The names that properties may have. */
  #names(schema: unknown, path: string) {
    if (!isObject(schema)) throw new SchemaProblem(path, "a schema of strings", schema);
    refuseUnknown(schema, path);
    const { enum: list, ...rest } = merged(schema, "const", {}, path);
    if (schema["const"] !== undefined || (rest["type"] ?? "string") !== "string" || Object.keys(rest).some((key) => !["type", "pattern", "format", "minLength", "maxLength"].includes(key))) {
      throw new SchemaProblem(path, "a schema of strings, by enum, pattern, format, minLength and maxLength", schema);
    }
    const strings = stringsOf(rest, path);
    if (list === undefined) return strings;
    if (!Array.isArray(list) || list.some((one) => typeof one !== "string")) throw new SchemaProblem(`${path}.enum`, "an array of names", list);
    const texts = ofTexts(list as string[]);
    return strings === undefined ? texts : both(strings, texts);
  }
}

/** A part of a reference. */
function decoded(part: string, reference: string, path: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new SchemaProblem(`${path}.$ref`, "a reference whose % begins the code of a character", reference);
  }
}
