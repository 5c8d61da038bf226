/** The weighted sum of each token's experts in order of rank, then the shared one, then the residual, in float64. */
import { sigmoid } from "./scalar.ts";
import { dims, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

export interface CombineExpertsCase {
  /** `[tokens, k, dim]` */
  readonly experts: Reference;
  /** `[tokens, k]` */
  readonly weights: Reference;
  /** `[tokens, dim]` */
  readonly shared?: Reference | undefined;
  /** `[tokens, 1]` */
  readonly sharedGate?: Reference | undefined;
  /** `[tokens, dim]` */
  readonly residual?: Reference | undefined;
}

export function combineExperts({ experts, weights, shared, sharedGate, residual }: CombineExpertsCase): Reference {
  const [tokens, k, dim] = dims(experts, 3) as [number, number, number];
  const out = reference([tokens, dim]);
  for (let t = 0; t < tokens; t++) {
    const factor = sharedGate === undefined ? 1 : sigmoid(sharedGate.data[t]!);
    for (let i = 0; i < dim; i++) {
      let sum = 0;
      for (let j = 0; j < k; j++) sum += weights.data[t * k + j]! * experts.data[(t * k + j) * dim + i]!;
      if (shared !== undefined) sum += factor * shared.data[t * dim + i]!;
      out.data[t * dim + i] = sum + (residual?.data[t * dim + i] ?? 0);
    }
  }
  return out;
}
