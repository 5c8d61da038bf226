/** Errors about options are in the library's words, whatever the schemas are made of. */
import { describe, expect, test } from "bun:test";
import { GatedDeltaError } from "../lib/errors.ts";
import { checkOptions } from "../lib/arguments/options.ts";
import type { OptionsSchema } from "../lib/arguments/options.ts";
import * as device from "../lib/device/device-schemas.ts";
import * as layer from "../lib/layer/layer-schemas.ts";
import * as models from "../lib/model/model-schemas.ts";
import * as sampling from "../lib/model/sampling/sampling-schemas.ts";
import * as sessions from "../lib/model/session/session-schemas.ts";
import * as text from "../lib/model/text/text-schemas.ts";
import * as states from "../lib/states/state-schemas.ts";
import { runProgram } from "./support/children.ts";

/** Every schema of options. The modules' other exports are shapes, which have no keys of their own. */
const schemas = [device, layer, models, sampling, sessions, states, text].flatMap((module) =>
  Object.entries(module).filter((entry): entry is [string, OptionsSchema<unknown>] => {
    const made: object = entry[1]();
    return "keys" in made && "safeParse" in made;
  }),
);

/** How zod's own messages begin. */
const zodsWords = /Invalid|Unrecognized|Too (?:small|big)|Expected|Required|received/;

const values = [undefined, null, -1.5, NaN, 2 ** 60, "", "zzz", true, Symbol("s"), {}, [], [{}], { zzz: 1 }, () => {}];

test("there are schemas to try", () => {
  expect(schemas.length).toBeGreaterThan(15);
});

describe.each(schemas)("%s", (_, schema) => {
  const { keys } = schema();
  test("every message names an expectation of ours", () => {
    const wrong: unknown[] = [...values, { zzz: 1 }];
    for (const value of values) wrong.push(Object.fromEntries(keys.map((key) => [key, value])));
    for (const key of keys) for (const value of values) wrong.push({ [key]: value });
    let refused = 0;
    for (const value of wrong) {
      try {
        checkOptions(schema, "op", value);
      } catch (error) {
        refused++;
        expect(error).toBeInstanceOf(GatedDeltaError);
        const { expected, message } = error as GatedDeltaError;
        expect(expected ?? "").not.toBe("");
        expect(message).not.toMatch(zodsWords);
      }
    }
    expect(refused).toBeGreaterThan(0);
  });
});

test("an option that throws while it is read is named, and a list that lies about its length is refused", () => {
  const of = (options: object) => {
    try {
      return checkOptions(sessions.generateOptions, "op", options);
    } catch (error) {
      return error;
    }
  };
  const lying = (length: unknown) => new Proxy([], { get: (target, key) => (key === "length" ? length : Reflect.get(target, key)) });
  expect(of({ maxTokens: 1, drafts: new Proxy({}, { ownKeys: () => { throw new Error("no"); } }) })).toMatchObject({ code: "invalid-argument", argument: "drafts" });
  for (const length of [-1, [1, 2], 2 ** 31]) expect(of({ maxTokens: 1, processors: lying(length) })).toMatchObject({ argument: "processors" });
  expect(of({ maxTokens: 1, stopTokens: [5] })).toMatchObject({ stopTokens: [5] });
});

test("an object whose contents are not members is refused", () => {
  for (const value of [new Map([["maxTokens", 1]]), new Set(), new Date(), /a/, new Error("a"), Promise.resolve(), new WeakMap(), new ArrayBuffer(8), [], () => {}]) {
    expect(() => checkOptions(sessions.generateOptions, "op", value)).toThrow("op: expected an object of options");
  }
  class Settings {
    readonly maxTokens = 3;
  }
  for (const value of [new Settings(), Object.assign(Object.create(null), { maxTokens: 3 }), Object.create({ maxTokens: 3 })]) {
    expect(checkOptions(sessions.generateOptions, "op", value)).toMatchObject({ maxTokens: 3 });
  }
});

test("zod is loaded with the first options that are checked, not with the library", () => {
  const program = `
    import { Device } from "ROOTlib/index.ts";
    import "ROOTlib/model.ts";
    const loaded = () => Object.keys(require.cache).some((path) => path.includes("/zod/"));
    Device.open("cpu").close();
    const before = loaded();
    Device.open({ backend: "cpu" }).close();
    console.log(before, loaded());
  `;
  expect(runProgram({}, program)).toEqual({ ok: true, text: "false true\n" });
});
