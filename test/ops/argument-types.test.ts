/**
 * The hand-written argument interfaces agree with the header: the same names, the same optional ones, and the same kinds.
 * The types are compared by `bun check`; at run time only the list of ops remains to be checked.
 */
import { expect, test } from "bun:test";
import type { Indices, Tensor } from "../../lib/index.ts";
import type * as api from "../../lib/index.ts";
import type * as ggml from "../../lib/ggml.ts";
import { ops } from "../../lib/native/ops.ts";

type Ops = typeof ops;
type Key<Name extends string> = Name extends `${string}.${infer Member}` ? Member : Name;

/** The type of an argument that the table describes. */
type Value<Entry> = Entry extends { kind: "tensor" }
  ? Entry extends { dtype: infer Of extends api.DType } ? Tensor<Of> : Tensor
  : Entry extends { kind: "indices" }
    ? Indices
    : Entry extends { kind: "boolean" }
      ? boolean
      : Entry extends { kind: "number" | "integer" }
        ? number
        : Entry extends { kind: "option"; names: infer Names }
          ? keyof Names
          : Entry extends { kind: "group"; members: infer Members extends readonly { name: string }[] }
            ? Described<Members>
            : Entry extends { kind: "states" }
              ? api.LayerStates
              : never;

type Flat<T> = { [K in keyof T]: T[K] };
type Described<Entries extends readonly { name: string }[]> = Flat<
  {
    readonly [Entry in Entries[number] as Entry extends { optional: false } ? Key<Entry["name"]> : never]: Value<Entry>;
  } & {
    readonly [Entry in Entries[number] as Entry extends { optional: true } ? Key<Entry["name"]> : never]?:
      | Value<Entry>
      | undefined;
  }
>;

/** The interface's own members, nested ones flattened to compare. */
type Written<T> = Flat<{
  [K in keyof T]: T[K] extends infer V ? (Exclude<V, undefined> extends api.DeltaRecords | api.CheckpointArguments ? Flat<Exclude<V, undefined>> | Extract<V, undefined> : V) : never;
}>;

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Agrees<Name extends keyof Ops, Interface> = Equal<Described<Ops[Name]["arguments"]>, Written<Interface>>;

const agrees: { readonly [Name in keyof Ops]: true } = {
  gatedDelta: true satisfies Agrees<"gatedDelta", api.GatedDeltaArguments>,
  causalConv1d: true satisfies Agrees<"causalConv1d", api.CausalConv1dArguments>,
  gatedRmsNorm: true satisfies Agrees<"gatedRmsNorm", api.GatedRmsNormArguments>,
  rmsNorm: true satisfies Agrees<"rmsNorm", api.RmsNormArguments>,
  gatedDeltaStep: true satisfies Agrees<"gatedDeltaStep", api.GatedDeltaStepArguments>,
  linear: true satisfies Agrees<"linear", api.LinearArguments>,
  add: true satisfies Agrees<"add", api.AddArguments>,
  attention: true satisfies Agrees<"attention", api.AttentionArguments>,
  embedding: true satisfies Agrees<"embedding", api.EmbeddingArguments>,
  siluMul: true satisfies Agrees<"siluMul", api.SiluMulArguments>,
  route: true satisfies Agrees<"route", api.RouteArguments>,
  expertLinear: true satisfies Agrees<"expertLinear", api.ExpertLinearArguments>,
  combineExperts: true satisfies Agrees<"combineExperts", api.CombineExpertsArguments>,
  topK: true satisfies Agrees<"topK", api.TopKArguments>,
  copySlots: true satisfies Agrees<"copySlots", api.CopySlotsArguments>,
  commitGatedDelta: true satisfies Agrees<"commitGatedDelta", api.CommitGatedDeltaArguments>,
  commitCausalConv1d: true satisfies Agrees<"commitCausalConv1d", api.CommitCausalConv1dArguments>,
  gatedDeltaNetInplace: true satisfies Agrees<"gatedDeltaNetInplace", ggml.GatedDeltaNetInplaceArguments>,
  gatedDeltaNetInplaceIds: true satisfies Agrees<"gatedDeltaNetInplaceIds", ggml.GatedDeltaNetInplaceIdsArguments>,
  ssmConvUpdateInplace: true satisfies Agrees<"ssmConvUpdateInplace", ggml.SsmConvUpdateInplaceArguments>,
  ssmConvUpdateInplaceIds: true satisfies Agrees<"ssmConvUpdateInplaceIds", ggml.SsmConvUpdateInplaceIdsArguments>,
};

test("the types of every op were compared", () => {
  expect(Object.keys(agrees).sort()).toEqual(Object.keys(ops).sort());
});

test("the comparison sees a difference", () => {
  type Altered = Omit<api.LinearArguments, "out"> & { readonly out?: Tensor | undefined };
  false satisfies Agrees<"linear", Altered>;
  false satisfies Agrees<"linear", api.LinearArguments & { readonly bias: Tensor }>;
  false satisfies Agrees<"expertLinear", Omit<api.ExpertLinearArguments, "ids"> & { readonly ids: Tensor<"i32"> }>;
  false satisfies Agrees<"copySlots", Omit<api.CopySlotsArguments, "pool"> & { readonly pool: Indices }>;
});
