/**
 * Reads the arguments of an op, each exactly once, even if the caller's object has getters. Checks the names and types
 * of the arguments. The native side checks that they fit each other when the op is encoded.
 */
import { asArguments, asInteger, invalid, largestIndex } from "../arguments/checks.ts";
import { refuseUnknown } from "../arguments/members.ts";
import { reading } from "../arguments/reading.ts";
import { gateDims as gateDimsCodes, headMaps } from "../native/options.ts";
import { isTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { indicesText } from "./indices.ts";
import type { Indices } from "./indices.ts";
import { bindStates, withDraft } from "./layer-states.ts";
import type { BoundStates, GivenStates, StateUse } from "./layer-states.ts";
import type { Argument, OpKind } from "./op-kind.ts";

/** Argument values, in the order of the op's lists. Numbers are the bits that cross the boundary. */
export interface Values {
  readonly numbers: number[];
  readonly tensors: (Tensor | undefined)[];
  /** Read when the op is encoded. */
  readonly indices: (Indices | undefined)[];
  states: GivenStates | undefined;
  /** The device for which the tensors were last checked, and the disposal counter then. */
  checkedFor: object | undefined;
  checkedAt: number;
}

/** Reads the arguments of an op. */
export function readArguments(kind: OpKind, args: unknown): Values {
  const values: Values = { numbers: [], tensors: [], indices: [], states: undefined, checkedFor: undefined, checkedAt: -1 };
  readObject(kind, kind.arguments, asArguments(kind.name, args as object) as Given, "", values);
  return values;
}

type Given = Readonly<Record<string, unknown>>;

function readObject(kind: OpKind, list: readonly Argument[], given: Given, prefix: string, values: Values): void {
  const op = kind.name;
  let known = 0;
  for (let i = 0; i < list.length; i++) {
    const argument = list[i]!;
    const value = given[argument.key];
    if (value !== undefined) known++;
    else if (!argument.optional) {
      checkKeys(op, list, given, prefix); // a misspelt name is the likely reason
      throw invalid(op, argument.name, expectedOf(argument), value);
    }
    const { states } = values;
    const bound = states === undefined || argument.bound === undefined;
    readOne(kind, argument, bound ? value : boundValue(op, argument, states.bound, value), values);
  }
  // Usual calls only count names; they are compared only if the counts differ.
  if (Object.keys(given).length !== known || Object.getPrototypeOf(given) !== Object.prototype) {
    checkKeys(op, list, given, prefix);
  }
}

/** The value that `states` supplies for an argument; giving both is an error. */
function boundValue(op: string, { name, bound }: Argument, states: BoundStates, value: unknown): unknown {
  if (bound === "cuSeqlens") return withDraft(op, states, value as Indices | undefined);
  if (value !== undefined) throw invalid(op, name, `nothing: \`${name}\` cannot be combined with \`states\``, value);
  return bound === "nothing" ? undefined : states[bound!];
}

function readOne(kind: OpKind, argument: Argument, value: unknown, values: Values): void {
  const op = kind.name;
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
      values.numbers.push(value === undefined ? argument.byDefault! : asInteger(op, argument.name, value, argument.least, largestIndex));
      break;
    case "boolean":
      if (typeof value !== "boolean") throw invalid(op, argument.name, expectedOf(argument), value);
      values.numbers.push(value ? 1 : 0);
      break;
    case "group":
      readGroup(kind, argument, value, values);
      break;
    case "states":
      if (value !== undefined) values.states = bindStates(value, useOf(kind, argument, values));
  }
}

/** The facts about an op that its `states` argument needs; all other arguments are read before. */
function useOf({ name, x, gateDims, headMap }: OpKind, states: Argument & { kind: "states" }, values: Values): StateUse {
  const { kinds, drafts } = states;
  return {
    op: name,
    kinds,
    drafts,
    x: values.tensors[x],
    perKey: values.numbers[gateDims] === gateDimsCodes.key,
    headMap: values.numbers[headMap] === headMaps.tiled ? "tiled" : "block",
  };
}

function readGroup(kind: OpKind, group: Argument & { kind: "group" }, value: unknown, values: Values): void {
  if (value === undefined) {
    for (const member of group.members) (member.kind === "tensor" ? values.tensors : values.indices).push(undefined);
    return;
  }
  if (typeof value !== "object" || value === null) throw invalid(kind.name, group.name, expectedOf(group), value);
  readObject(kind, group.members, value as Given, `${group.name}.`, values);
}

/** The number of an option's name. */
function asOption(op: string, name: string, value: unknown, argument: Argument & { kind: "option" }): number {
  if (value === undefined) return argument.byDefault!;
  const code: unknown = typeof value === "string" ? argument.names[value] : undefined;
  if (typeof code === "number") return code; // not a name inherited from Object.prototype
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

/** Refuses names that are not arguments of the op. */
function checkKeys(op: string, list: readonly Argument[], given: Given, prefix: string): void {
  const names = list.map(({ key }) => key);
  reading(op, prefix, () => refuseUnknown(op, given, names, "", prefix));
}

function expectedOf(argument: Argument): string {
  switch (argument.kind) {
    case "tensor":
      return argument.dtype === undefined ? "a Tensor" : `a Tensor of ${argument.dtype}`;
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
    case "states":
      return "the result of step.layer(i) or draft.layer(i)";
  }
}
