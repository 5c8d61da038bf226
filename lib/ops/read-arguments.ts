/**
 * Reads the arguments of an op: every one once, whatever the caller's object does meanwhile. Here is checked what only
 * TypeScript can know: which arguments there are and of what kind. How they fit each other the native side checks when
 * the op is encoded.
 */
import { asArguments, asInteger, invalid, largestIndex } from "../arguments/checks.ts";
import { GatedDeltaError, describe } from "../errors.ts";
import { isTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { indicesText } from "./indices.ts";
import type { Indices } from "./indices.ts";
import type { Argument, OpKind } from "./op-kind.ts";

/** What was read, in the order of the op's lists. Numbers are the bits that cross the boundary. */
export interface Values {
  readonly numbers: number[];
  readonly tensors: (Tensor | undefined)[];
  /** Looked into when the op is encoded. */
  readonly indices: (Indices | undefined)[];
}

/** Reads the arguments of an op. */
export function readArguments(kind: OpKind, args: unknown): Values {
  const values: Values = { numbers: [], tensors: [], indices: [] };
  readObject(kind.name, kind.arguments, asArguments(kind.name, args as object) as Given, "", values);
  return values;
}

type Given = Readonly<Record<string, unknown>>;

function readObject(op: string, list: readonly Argument[], given: Given, prefix: string, values: Values): void {
  let known = 0;
  for (let i = 0; i < list.length; i++) {
    const argument = list[i]!;
    const value = given[argument.key];
    if (value !== undefined) known++;
    else if (!argument.optional) {
      checkKeys(op, list, given, prefix); // a misspelt name is the likely reason
      throw invalid(op, argument.name, expectedOf(argument), value);
    }
    readOne(op, argument, value, values);
  }
  // Counting is all that a usual call costs; names are looked at where the numbers differ.
  if (Object.keys(given).length !== known || Object.getPrototypeOf(given) !== Object.prototype) {
    checkKeys(op, list, given, prefix);
  }
}

function readOne(op: string, argument: Argument, value: unknown, values: Values): void {
  switch (argument.kind) {
    case "tensor":
      if (value !== undefined && !isTensor(value)) throw invalid(op, argument.name, expectedOf(argument), value);
      values.tensors.push(value);
      break;
    case "indices":
      values.indices.push(value as Indices | undefined);
      break;
    case "option":
      values.numbers.push(asOption(op, argument.name, value, argument));
      break;
    case "number":
      values.numbers.push(bitsOf(asFloat32(op, argument, value, argument.byDefault)));
      break;
    case "integer":
      values.numbers.push(asInteger(op, argument.name, value, argument.least, largestIndex));
      break;
    case "boolean":
      if (typeof value !== "boolean") throw invalid(op, argument.name, expectedOf(argument), value);
      values.numbers.push(value ? 1 : 0);
      break;
    case "group":
      readGroup(op, argument, value, values);
  }
}

function readGroup(op: string, group: Argument & { kind: "group" }, value: unknown, values: Values): void {
  if (value === undefined) {
    for (const { kind } of group.members) (kind === "tensor" ? values.tensors : values.indices).push(undefined);
    return;
  }
  if (typeof value !== "object" || value === null) throw invalid(op, group.name, expectedOf(group), value);
  readObject(op, group.members, value as Given, `${group.name}.`, values);
}

/** The number of an option's name. */
function asOption(op: string, name: string, value: unknown, argument: Argument & { kind: "option" }): number {
  if (value === undefined) return argument.byDefault!;
  const code: unknown = typeof value === "string" ? argument.names[value] : undefined;
  if (typeof code === "number") return code; // not what a table inherits from Object.prototype
  throw invalid(op, name, expectedOf(argument), value);
}

function asFloat32(op: string, argument: Argument, value: unknown, byDefault: number | undefined): number {
  if (value === undefined) return byDefault!;
  if (typeof value === "number" && Number.isFinite(Math.fround(value))) return value;
  throw invalid(op, argument.name, expectedOf(argument), value);
}

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

function bitsOf(value: number): number {
  float[0] = value;
  return bits[0]!;
}

/** Refuses names that are none of the op's. */
function checkKeys(op: string, list: readonly Argument[], given: Given, prefix: string): void {
  for (const key of Object.keys(given)) {
    if (list.some((argument) => argument.key === key)) continue;
    throw new GatedDeltaError("invalid-argument", {
      op,
      argument: prefix + key,
      expected: `one of ${list.map((argument) => argument.key).join(", ")}`,
      received: describe(given[key]),
    });
  }
}

function expectedOf(argument: Argument): string {
  switch (argument.kind) {
    case "tensor":
      return "a Tensor";
    case "indices":
      return indicesText;
    case "option":
      return Object.keys(argument.names).map((name) => JSON.stringify(name)).join(" | ");
    case "number":
      return "a finite number within float32's range";
    case "integer":
      return `an integer in ${argument.least}..${largestIndex}`;
    case "boolean":
      return "a boolean";
    case "group":
      return `{ ${argument.members.map(({ key }) => key).join(", ")} }`;
  }
}
