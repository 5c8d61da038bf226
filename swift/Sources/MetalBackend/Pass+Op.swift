// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

import GatedDeltaTypes

extension Pass {
  mutating func encode(_ op: Op) throws(Failure) {
    switch op {
    case .gatedDelta(let op, let sequences): try encode(op, sequences)
    case .causalConv1d(let op, let sequences): try encode(op, sequences)
    case .gatedRMSNorm(let op): try encode(op)
    case .rmsNorm(let op): try encode(op)
    case .gatedDeltaStep(let op, let sequences): try encode(op, sequences)
    case .linear(let op): try encode(op)
    case .elementwise(let op): try encode(op)
    case .attention(let op, let sequences): try encode(op, sequences)
    case .embedding(let op, let sequences): try encode(op, sequences)
    case .route(let op): try encode(op)
    case .expertLinear(let op): try encode(op)
    case .combineExperts(let op): try encode(op)
    case .topK(let op): try encode(op)
    case .copySlots(let op, let sequences): try encode(op, sequences)
    case .commitGatedDelta(let op, let sequences): try encode(op, sequences)
    case .commitCausalConv1d(let op, let sequences): try encode(op, sequences)
    }
  }
}

extension Op {
  /// Multiply-adds, roughly.
  var work: Int {
    switch self {
    case .gatedDelta(let op, let sequences): op.work(sequences)
    case .causalConv1d(let op, let sequences): op.work(sequences)
    case .gatedRMSNorm(let op): op.work
    case .rmsNorm(let op): op.work
    case .gatedDeltaStep(let op, let sequences): op.work(sequences)
    case .linear(let op): op.work
    case .elementwise(let op): op.work
    case .attention(let op, let sequences): op.work(sequences)
    case .embedding(let op, let sequences): op.work(sequences)
    case .route(let op): op.work
    case .expertLinear(let op): op.work
    case .combineExperts(let op): op.work
    case .topK(let op): op.work
    case .copySlots(let op, let sequences): op.work(sequences)
    case .commitGatedDelta(let op, let sequences): op.work(sequences)
    case .commitCausalConv1d(let op, let sequences): op.work(sequences)
    }
  }
}
