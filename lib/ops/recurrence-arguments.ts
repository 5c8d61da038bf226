/** Arguments that the gated delta rule, its fused step and its commit share. */
import type { BetaForm, GateDims, GateForm, HeadMap, QKNorm } from "../native/options.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** Options of the recurrence. */
export interface RecurrenceOptions {
  /** How the decay is computed from `gate`; there is no default. */
  readonly gateForm: GateForm;
  /** Whether there is one gate per head or one per key dimension. @default "head" */
  readonly gateDims?: GateDims | undefined;
  /** The bound L < 0 of `raw-bounded`, which needs it; other forms refuse it. */
  readonly gateBound?: number | undefined;
  /** How β is computed from `beta`. @default "given" */
  readonly betaForm?: BetaForm | undefined;
  /** Which key head serves which value head. @default "block" */
  readonly headMap?: HeadMap | undefined;
  /** Normalisation of query and key rows. @default "none" */
  readonly qkNorm?: QKNorm | undefined;
  /** Epsilon of `qkNorm`. @default 1e-6 */
  readonly qkNormEps?: number | undefined;
  /** Factor of the (normalised) query. @default keyDim ** -0.5 */
  readonly scale?: number | undefined;
}

/** Tensors from which the gate is computed. */
export interface GateTensors {
  /**
   * `[tokens, valueHeads]`, or `[tokens, valueHeads, keyDim]` with `gateDims: "key"`. f32 for the forms `decay`, `log`
   * and `neg-log`; for the raw forms the activation dtype or f32.
   */
  readonly gate: Tensor;
  /** `[tokens, valueHeads]`, of the activation dtype or f32. */
  readonly beta: Tensor;
  /** `[valueHeads]`, any float dtype: needed by the raw forms, refused by the others. */
  readonly aLog?: Tensor | undefined;
  /** `[valueHeads]`, or `[valueHeads, keyDim]` with `gateDims: "key"`, any float dtype; as `aLog`. */
  readonly dtBias?: Tensor | undefined;
}

/** Records of {@link gatedDelta} for {@link commitGatedDelta}: about 1 KB per token and head, instead of a state. */
export interface DeltaRecords {
  /** `[tokens, keyHeads, keyDim]`, f32, contiguous: the normalised keys. */
  readonly key: Tensor;
  /** `[tokens, valueHeads, valueDim]`, f32, contiguous: the δ. */
  readonly delta: Tensor;
  /** `[tokens, valueHeads]`, or `[tokens, valueHeads, keyDim]` with gates per key, f32, contiguous: the decays a. */
  readonly decay: Tensor;
}
