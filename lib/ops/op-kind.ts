/** The generated tables of the ops' arguments, arranged for reading and encoding. */
import { Descriptor } from "../native/descriptor.ts";
import type { OpName } from "../native/descriptor.ts";
import { ops } from "../native/ops.ts";
import type { DType } from "../native/options.ts";
import type { BoundStates, StateKind } from "./layer-states.ts";

export type { OpName } from "../native/descriptor.ts";

/** One argument of the table. `key` is the property that holds it. */
export type Argument = {
  readonly name: string;
  readonly key: string;
  readonly optional: boolean;
  /** The member of `states` that supplies it; undefined if `states` does not concern it. */
  readonly bound?: keyof BoundStates | "nothing" | undefined;
} & (
  | { readonly kind: "indices" | "boolean" }
  | { readonly kind: "tensor"; readonly dtype?: DType | undefined }
  | { readonly kind: "integer"; readonly least: number; readonly byDefault: number | undefined }
  | { readonly kind: "number"; readonly byDefault: number | undefined }
  | { readonly kind: "option"; readonly names: Readonly<Record<string, number>>; readonly byDefault: number | undefined }
  | { readonly kind: "group"; readonly members: readonly Argument[] }
  | { readonly kind: "states"; readonly kinds: readonly StateKind[]; readonly drafts: boolean }
);

/** An argument's place in the descriptor, in words from its start. */
export interface Place {
  readonly name: string;
  readonly at: number;
}

/** One op's arguments for reading and encoding. Lists are in the order in which arguments are read. */
export interface OpKind {
  readonly name: OpName;
  readonly arguments: readonly Argument[];
  readonly numbers: readonly Place[];
  readonly tensors: readonly Place[];
  readonly indices: readonly Place[];
  readonly descriptor: Descriptor;
  /** Indices, among the op's values, of those that a `states` argument needs; −1 for a value that the op lacks. */
  readonly x: number;
  readonly gateDims: number;
  readonly headMap: number;
}

type Entry = Omit<Argument, "key"> & { readonly at?: number; readonly members?: readonly Entry[] };

function argumentOf({ at: _, members, ...entry }: Entry): Argument {
  const key = entry.name.slice(entry.name.indexOf(".") + 1);
  return { ...entry, key, ...(members !== undefined && { members: members.map(argumentOf) }) } as Argument;
}

function kindOf(name: OpName): OpKind {
  const entries = ops[name].arguments as readonly Entry[];
  const flat = entries.flatMap((entry) => entry.members ?? [entry]);
  const places = (wanted: (kind: string) => boolean): Place[] =>
    flat.filter(({ kind }) => wanted(kind)).map((entry) => ({ name: entry.name, at: entry.at! }));
  const tensors = places((kind) => kind === "tensor");
  const numbers = places((kind) => !["tensor", "indices", "states"].includes(kind));
  const find = (list: readonly Place[], wanted: string) => list.findIndex((place) => place.name === wanted);
  return {
    name,
    arguments: entries.map(argumentOf),
    numbers,
    tensors,
    indices: places((kind) => kind === "indices"),
    descriptor: new Descriptor(name),
    x: find(tensors, "x"),
    gateDims: find(numbers, "gateDims"),
    headMap: find(numbers, "headMap"),
  };
}

/** The ops by name. */
export const opKinds = Object.fromEntries(Object.keys(ops).map((name) => [name, kindOf(name as OpName)])) as {
  readonly [Name in OpName]: OpKind;
};
