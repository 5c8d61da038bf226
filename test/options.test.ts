/** Errors about options are in the library's words, whatever the schemas are made of. */
import { describe, expect, test } from "bun:test";
import { GatedDeltaError } from "../lib/errors.ts";
import { checkOptions } from "../lib/arguments/options.ts";
import type { OptionsSchema } from "../lib/arguments/options.ts";
import * as device from "../lib/device/device-schemas.ts";
import * as layer from "../lib/layer/layer-schemas.ts";
import * as sampling from "../lib/model/sampling/sampling-schemas.ts";
import * as sessions from "../lib/model/session/session-schemas.ts";
import * as states from "../lib/states/state-schemas.ts";

const isSchema = (value: unknown): value is OptionsSchema<unknown> => {
  return typeof value === "object" && value !== null && "keys" in value && "safeParse" in value;
};
/** Every schema of options, also those in tables by name. */
const schemas = [device, layer, sampling, sessions, states].flatMap((module) =>
  Object.entries(module).flatMap(([name, value]): [string, OptionsSchema<unknown>][] => {
    if (isSchema(value)) return [[name, value]];
    const table = Object.entries(value as object).filter(([, member]) => isSchema(member)) as [string, OptionsSchema<unknown>][];
    return table.map(([key, schema]) => [`${name}.${key}`, schema]);
  }),
);

/** How zod's own messages begin. */
const zodsWords = /Invalid|Unrecognized|Too (?:small|big)|Expected|Required|received/;

const values = [undefined, null, -1.5, NaN, 2 ** 60, "", "zzz", true, Symbol("s"), {}, [], [{}], { zzz: 1 }, () => {}];

test("there are schemas to try", () => {
  expect(schemas.length).toBeGreaterThan(5);
});

describe.each(schemas)("%s", (_, schema) => {
  test("every message names an expectation of ours", () => {
    const wrong: unknown[] = [...values, { zzz: 1 }];
    for (const value of values) wrong.push(Object.fromEntries(schema.keys.map((key) => [key, value])));
    for (const key of schema.keys) for (const value of values) wrong.push({ [key]: value });
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
