/** Requirements on the documentation of every public export. TypeDoc checks its links (docs/build.mjs). */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Device } from "../lib/index.ts";
import { exportsOf, propertiesOf } from "./support/tsdoc.ts";
import type { Exported, Member } from "./support/tsdoc.ts";

const lib = join(import.meta.dir, "..", "lib");
const modules = { "gated-delta": "index.ts", "gated-delta/ai": "ai.ts", "gated-delta/ggml": "ggml.ts", "gated-delta/model": "model.ts", "gated-delta/server": "server.ts" };
const everything = Object.values(modules).flatMap((file) => exportsOf(join(lib, file)));
const members = everything.flatMap((one) => one.members.map((member) => ({ one, member, where: `${one.name}.${member.name}` })));
/** Functions that make ops. */
const ops = everything.filter(({ kind, text }) => kind === "function" && /\): Op \{/.test(text));

/** The names of the entries that do not have a property. */
const failing = <T>(list: readonly T[], name: (one: T) => string, holds: (one: T) => boolean): string[] => list.filter((one) => !holds(one)).map(name);

const nameOf = ({ name }: { readonly name: string }): string => name;
/** Whether there is a sentence in addition to tags such as a default. */
const isSaid = (doc: string): boolean => doc.replace(/@(?:default|throws|see|example)\b[\s\S]*$/, "").trim().length > 5;
const optional = ({ text }: Member): boolean => /^(?:readonly )?\w+\?/.test(text);
const typed = (type: RegExp) => ({ text }: Member): boolean => type.test(text.replace(/^[^:]*:/, ":"));

/** The properties of an op's argument interface, including inherited ones. */
function argumentsOf(op: Exported): { readonly where: string; readonly member: Member }[] {
  const name = /\(args: (\w+)\)/.exec(op.text)![1]!;
  const own = everything.find((one) => one.name === name)!;
  return propertiesOf(own, everything).map((member) => ({ where: `${op.name}.${member.name}`, member }));
}
const allArguments = ops.flatMap(argumentsOf);

describe("the reader of the sources", () => {
  test("finds what the modules export when they are imported", async () => {
    for (const file of Object.values(modules)) {
      const found = exportsOf(join(lib, file)).filter(({ kind, typeOnly }) => !typeOnly && (kind === "class" || kind === "function" || kind === "const"));
      const imported = Object.keys((await import(join(lib, file))) as object);
      expect(found.map(nameOf).sort()).toEqual(imported.sort());
    }
    expect(ops.length).toBe(21);
    expect(members.length).toBeGreaterThan(400);
    expect(allArguments.length).toBeGreaterThan(120);
  });

  test("finds the members that a class has when it runs", async () => {
    const api = (await import(join(lib, "index.ts"))) as Record<string, { prototype: object }>;
    for (const name of ["Tensor", "StatePool", "GatedDeltaNet", "Device"]) {
      const found = new Set(everything.find((one) => one.name === name)!.members.map((member) => member.name));
      const there = Object.getOwnPropertyNames(api[name]!.prototype).filter((key) => key !== "constructor");
      expect([name, there.filter((key) => !found.has(key))]).toEqual([name, []]);
    }
  });
});

describe("the documentation in the sources", () => {
  test("links to what its module exports, or its file names", () => {
    for (const file of Object.values(modules)) {
      const exported = exportsOf(join(lib, file));
      const names = new Set(exported.map(nameOf));
      const members = new Set(everything.flatMap((one) => one.members.map((member) => member.name))); // some are inherited
      const broken = exported.flatMap((one) => {
        const code = readFileSync(one.file, "utf8").replace(/\/\*[^]*?\*\/|\/\/.*/g, "");
        const links = [one, ...one.members].flatMap(({ doc }) => [...doc.matchAll(/\{@link (\w+)(?:[.#](\w+))?/g)]);
        const leads = ([, name, member]: readonly (string | undefined)[]) => {
          return (names.has(name!) || new RegExp(`\\b${name}\\b`).test(code)) && (member === undefined || members.has(member));
        };
        return links.filter((link) => !leads(link)).map(([link]) => `${one.name}: ${link}`);
      });
      expect([file, broken]).toEqual([file, []]);
    }
  });

  test("is there for every export and every member", () => {
    expect(failing(everything, nameOf, ({ doc }) => isSaid(doc))).toEqual([]);
    const first = new Set<string>();
    // Only the first of several overloads is documented.
    const documented = members.filter(({ where }) => !first.has(where) && first.add(where));
    expect(failing(documented, ({ where }) => where, ({ member }) => isSaid(member.doc))).toEqual([]);
  });

  test("says of every method with arguments what it throws, or that it never does", () => {
    const said = new Map<string, string>();
    for (const { where, member } of members) said.set(where, `${said.get(where) ?? ""}${member.doc}`);
    const withArguments = members.filter(({ one, member }) => one.kind === "class" && member.kind === "method" && !/\(\)/.test(member.text.split(":")[0]!));
    expect(withArguments.length).toBeGreaterThan(50);
    expect(failing(withArguments, ({ where }) => where, ({ where }) => /@throws|Never throws/.test(said.get(where)!))).toEqual([]);
  });

  test("names the error class wherever something is thrown", () => {
    const docs = [...everything.map(({ name, doc }) => ({ where: name, doc })), ...members.map(({ where, member }) => ({ where, doc: member.doc }))];
    const named = /@throws(?: \{\w+Error\}| as \{@link| the failure of)/;
    expect(failing(docs, ({ where }) => where, ({ doc }) => [...doc.matchAll(/@throws[^\n]*/g)].every(([line]) => named.test(line)))).toEqual([]);
  });

  test("gives numbers a unit, a range or what they count", () => {
    const numbers = members.filter(({ member }) => member.kind !== "method" && typed(/^:? ?number(?: \| undefined)?;|^.*: number \{/)(member));
    expect(numbers.length).toBeGreaterThan(60);
    const unit = /byte|token|element|millisecond|second|number of|how many|index|slot|head|row|page|layer|position|length|epsilon|added to|factor|divided|multiplied|part of|bound|base|probabilit|dimension|width|taps|heads|integer|ticket|bits|id\b|address|counts?|multiple/i;
    expect(failing(numbers, ({ where }) => where, ({ member }) => unit.test(member.doc))).toEqual([]);
  });
});

describe("the documentation of an operation", () => {
  test("has a formula, a source, the errors, an example and what is rounded when", () => {
    const parts = {
      formula: /^```math\n[\s\S]+?\n```$/m,
      // A paper by name and year, or a file or function of another project.
      source: /@see (?:.*\b(?:19|20)\d\d\b|.*`\w[\w./]*`)/,
      errors: /@throws \{GatedDeltaError\} that names the argument[\s\S]*Nothing is\s+written then\./,
      example: /@example\n\s*device\.run\(/,
      rounding: /round|f32/,
      dtype: /float32|f32|dtype|without rounding/,
    };
    for (const [part, pattern] of Object.entries(parts)) expect([part, failing(ops, nameOf, ({ doc }) => pattern.test(doc))]).toEqual([part, []]);
    expect(failing(ops, nameOf, ({ doc }) => !/^Source:/m.test(doc))).toEqual([]);
  });

  test("has an example whose arguments the operation takes", async () => {
    const api = { ...(await import(join(lib, "index.ts"))), ...(await import(join(lib, "ggml.ts"))) } as Record<string, (args: object) => object>;
    using device = Device.open("cpu");
    const tensor = device.tensor("f32", [1]);
    for (const { name, doc } of ops) {
      const code = /@example\n([\s\S]*?)(?=\n@|$)/.exec(doc)![1]!;
      let made: unknown;
      // Every other name is a tensor, or a group of tensors.
      const known: Record<string, unknown> = {
        [name]: api[name],
        device: { run: (op: unknown) => void (made = op), wait: () => {} },
        records: { key: tensor, delta: tensor, decay: tensor },
        down: { weight: tensor, scales: tensor, biases: tensor },
      };
      const words = code.replace(/\/\/.*/g, "").match(/\b[a-z]\w*/gi)!;
      for (const word of words) if (!(word in known) && word !== "true" && word !== "false") known[word] = tensor;
      new Function(...Object.keys(known), code)(...Object.values(known));
      expect([name, String((made as { name: string }).name)]).toEqual([name, name]);
    }
  });

  test("gives every tensor a shape and an element type", () => {
    const tensors = allArguments.filter(({ member }) => typed(/: Tensor\b/)(member));
    expect(tensors.length).toBeGreaterThan(70);
    // In full, or by reference to another argument.
    const shape = /`\[[^`]*\]`|[Ss]haped as `\w+`|\bas `\w+`|of the shape/;
    const dtype = /\b(?:f32|f16|bf16|u32|id32|dtype)\b|\bas `\w+`|The same for/;
    expect(failing(tensors, ({ where }) => where, ({ member }) => shape.test(member.doc) || /^The same for/.test(member.doc))).toEqual([]);
    expect(failing(tensors, ({ where }) => where, ({ member }) => dtype.test(member.doc))).toEqual([]);
  });

  test("gives index data a length and what they index", () => {
    const indices = allArguments.filter(({ member }) => typed(/: Indices\b/)(member));
    expect(indices.length).toBeGreaterThan(20);
    expect(failing(indices, ({ where }) => where, ({ member }) => /`\[[^`]*\]`|each (?:sequence|copy)/.test(member.doc))).toEqual([]);
  });

  test("says of every argument that may be left out what happens then", () => {
    const left = allArguments.filter(({ member }) => optional(member));
    const said = /@default|in place of|[Ww]ithout it|Given with|Shaped as `scales`|needed by|needs it|as `aLog`|Written:|Written here|given exactly when/;
    expect(failing(left, ({ where }) => where, ({ member }) => said.test(member.doc))).toEqual([]);
  });
});
