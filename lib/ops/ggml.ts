/**
 * What the four fused ops share: ggml's conventions (https://github.com/ggml-org/ggml, `ggml_gated_delta_net` and
 * `ggml_ssm_conv`, with the in-place and ids forms that llama.cpp's forks give them). Everything is f32.
 */
import { asInteger, invalid } from "../arguments/checks.ts";
import {
  asOptionalTensor,
  asTensor,
  expectContiguous,
  expectContiguousRows,
  expectDType,
  expectRank,
  expectShape,
} from "../tensor/expect.ts";
import { DisposedError, ShapeError } from "../errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { checkConvWeights } from "./causal-conv1d.ts";
import { gateDimsNames } from "./option-names.ts";

/** Inputs and outputs of both forms of the recurrence. Dimensions: B sequences of T tokens, heads Hk and Hv, dim S. */
export interface GatedDeltaNetArguments {
  /** `[B, T, Hk, S]`, f32. S is a multiple of 8 in 8..256. */
  readonly q: Tensor;
  /** `[B, T, Hk, S]`, f32. */
  readonly k: Tensor;
  /** `[B, T, Hv, S]`, f32. Value head h uses key head h mod Hk. */
  readonly v: Tensor;
  /** `[B, T, Hv]`, or `[B, T, Hv, S]` for a gate per key dimension (KDA), f32: the logarithm of the decay. */
  readonly gate: Tensor;
  /** `[B, T, Hv]`, f32, as it is used. */
  readonly beta: Tensor;
  /**
   * Written: `[K, B, Hv, S, S]`, f32, contiguous. Entry j is the state after all but the last j tokens, 0 the newest;
   * entries of j ≥ T keep what they held. @default none
   */
  readonly snapshots?: Tensor | undefined;
  /** Written: `[B, T, Hv, S]`, f32, scaled by 1/√S. */
  readonly out: Tensor;
}

/** Checked: every tensor of B·T rows as `[B·T, …]`. */
export interface CheckedNet {
  readonly sequences: number;
  readonly tokens: number;
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly dim: number;
  readonly gateDims: number;
  readonly query: Tensor;
  readonly key: Tensor;
  readonly value: Tensor;
  readonly gate: Tensor;
  readonly beta: Tensor;
  readonly snapshots: Tensor | undefined;
  readonly out: Tensor;
}

/** Layout of a state, after the dimension that counts them. */
export const stateLayout = ["Hv", "S", "S"];

/** Checks the tensors of the recurrence, each of which was read once. */
export function checkNet(
  op: string,
  q: unknown,
  k: unknown,
  v: unknown,
  givenGate: unknown,
  givenBeta: unknown,
  givenSnapshots: unknown,
  givenOut: unknown,
): CheckedNet {
  const query = asTensor(op, "q", q);
  expectRank(op, "q", query, ["B", "T", "Hk", "S"]);
  const [sequences, tokens, keyHeads, dim] = query.shape as [number, number, number, number];
  const value = asTensor(op, "v", v);
  expectRank(op, "v", value, ["B", "T", "Hv", "S"]);
  const valueHeads = value.shape[2]!;
  const rows = (argument: string, given: unknown, rest: readonly number[], layout: readonly string[]): Tensor => {
    const tensor = asTensor(op, argument, given);
    expectShape(op, argument, tensor, [sequences, tokens, ...rest], ["B", "T", ...layout]);
    expectDType(op, argument, tensor, "f32");
    expectContiguousRows(op, argument, tensor);
    return asRows(op, argument, tensor);
  };
  const gate = asTensor(op, "gate", givenGate);
  const perKey = gate.shape.length === 4;
  const snapshots = asOptionalTensor(op, "snapshots", givenSnapshots);
  if (snapshots !== undefined) {
    const layout = ["K", "B", ...stateLayout];
    expectRank(op, "snapshots", snapshots, layout);
    checkF32(op, "snapshots", snapshots, [snapshots.shape[0]!, sequences, valueHeads, dim, dim], layout);
  }
  return {
    sequences,
    tokens,
    keyHeads,
    valueHeads,
    dim,
    gateDims: perKey ? gateDimsNames.key : gateDimsNames.head,
    query: rows("q", query, [keyHeads, dim], ["Hk", "S"]),
    key: rows("k", k, [keyHeads, dim], ["Hk", "S"]),
    value: rows("v", value, [valueHeads, dim], ["Hv", "S"]),
    gate: perKey ? rows("gate", gate, [valueHeads, dim], ["Hv", "S"]) : rows("gate", gate, [valueHeads], ["Hv"]),
    beta: rows("beta", givenBeta, [valueHeads], ["Hv"]),
    snapshots,
    out: rows("out", givenOut, [valueHeads, dim], ["Hv", "S"]),
  };
}

/** `[B, T, …]` as `[B·T, …]`: sequences lie one after another with the tokens' stride. */
function asRows(op: string, argument: string, tensor: Tensor): Tensor {
  if (tensor.disposed) throw new DisposedError({ op, argument, expected: "a tensor that is not disposed", received: "a disposed one" });
  const [sequences, tokens, ...rest] = tensor.shape as [number, number, ...number[]];
  try {
    return tensor.reshape([sequences * tokens, ...rest]);
  } catch (cause) {
    if (!(cause instanceof ShapeError)) throw cause;
    const expected = "sequences that follow one another with the stride of tokens";
    throw new ShapeError({ op, argument, expected, received: `strides [${tensor.strides.join(", ")}]`, cause });
  }
}

/** A contiguous f32 tensor of a shape. */
export function checkF32(op: string, argument: string, tensor: Tensor, shape: readonly number[], layout: readonly string[]): void {
  expectShape(op, argument, tensor, shape, layout);
  expectDType(op, argument, tensor, "f32");
  expectContiguous(op, argument, tensor);
}

/** Inputs and output of both forms of the convolution, one token a sequence. */
export interface SsmConvUpdateArguments {
  /** `[C, K]`, f32, oldest tap first; K is 2..9. */
  readonly weight: Tensor;
  /** `[B, C]`, f32. */
  readonly x: Tensor;
  /** Whether each sum y becomes y·sigmoid(y). */
  readonly silu: boolean;
  /** Written: `[B, C]`, f32. */
  readonly out: Tensor;
}

/** Checks the tensors of the convolution. */
export function checkUpdate(op: string, givenWeight: unknown, givenX: unknown, silu: unknown, givenOut: unknown) {
  const x = asTensor(op, "x", givenX);
  expectRank(op, "x", x, ["B", "C"]);
  expectDType(op, "x", x, "f32");
  expectContiguousRows(op, "x", x);
  const [sequences, channels] = x.shape as [number, number];
  const weight = asTensor(op, "weight", givenWeight);
  const width = checkConvWeights(op, ["weight", "bias"], weight, undefined, channels);
  expectDType(op, "weight", weight, "f32");
  const out = asTensor(op, "out", givenOut);
  expectShape(op, "out", out, x.shape, ["B", "C"]);
  expectDType(op, "out", out, "f32");
  expectContiguousRows(op, "out", out);
  if (typeof silu !== "boolean") throw invalid(op, "silu", "a boolean", silu);
  return { sequences, channels, width, x, weight, silu: silu ? 1 : 0, out };
}

/** The first slot that is written; all of them must lie in the cache. */
export function asHead(op: string, value: unknown, sequences: number, slots: number): number {
  return asInteger(op, "rsHead", value, 0, Math.max(0, slots - sequences));
}
