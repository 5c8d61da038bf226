/** The records of a verified draft: what each token would do to the states, kept until it is known which tokens stay. */
import { invalid } from "../arguments/checks.ts";
import { asTensor, expectContiguous, expectDType, expectShape } from "../tensor/expect.ts";
import type { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

/** Records of {@link gatedDelta} for {@link commitGatedDelta}: about 1 KB a token and head, instead of its state. */
export interface DeltaRecords {
  /** `[tokens, keyHeads, keyDim]`, f32, contiguous: the keys as they were normalised. */
  readonly key: Tensor;
  /** `[tokens, valueHeads, valueDim]`, f32, contiguous: the δ. */
  readonly delta: Tensor;
  /** `[tokens, valueHeads]`, or `[tokens, valueHeads, keyDim]` with gates per key, f32, contiguous: the decays a. */
  readonly decay: Tensor;
}

/** The sizes that records must have. */
export interface RecordSizes {
  readonly tokens: number;
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly keyDim: number;
  readonly valueDim: number;
  readonly perKey: boolean;
}

/** Checks records against the op's sizes. */
export function checkRecords(op: string, value: unknown, sizes: RecordSizes): DeltaRecords | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "object" || value === null) throw invalid(op, "records", "{ key, delta, decay }", value);
  const { key, delta, decay } = value as DeltaRecords;
  const { tokens, keyHeads, valueHeads, keyDim, valueDim, perKey } = sizes;
  const valueRow = ["tokens", "valueHeads"];
  return {
    key: checked(op, "records.key", key, [tokens, keyHeads, keyDim], ["tokens", "keyHeads", "keyDim"]),
    delta: checked(op, "records.delta", delta, [tokens, valueHeads, valueDim], [...valueRow, "valueDim"]),
    decay: perKey
      ? checked(op, "records.decay", decay, [tokens, valueHeads, keyDim], [...valueRow, "keyDim"])
      : checked(op, "records.decay", decay, [tokens, valueHeads], valueRow),
  };
}

function checked(op: string, argument: string, value: unknown, shape: readonly number[], layout: readonly string[]): Tensor {
  const tensor = asTensor(op, argument, value);
  expectShape(op, argument, tensor, shape, layout);
  expectDType(op, argument, tensor, "f32");
  expectContiguous(op, argument, tensor);
  return tensor;
}

/** Packs records, or their absence. */
export function packRecords(
  recorder: Recorder,
  descriptor: Descriptor<"gd_gated_delta"> | Descriptor<"gd_commit_gated_delta">,
  op: string,
  records: DeltaRecords | undefined,
): void {
  const common = descriptor as Descriptor<"gd_commit_gated_delta">; // the fields have the same names in both
  placeTensor(recorder, common, "record_key", op, "records.key", records?.key);
  placeTensor(recorder, common, "record_delta", op, "records.delta", records?.delta);
  placeTensor(recorder, common, "record_decay", op, "records.decay", records?.decay);
}
