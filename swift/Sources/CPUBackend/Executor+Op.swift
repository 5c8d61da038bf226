// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

import GatedDeltaTypes

extension Executor {
  func run(_ ops: [EncodedOp], _ index: Int) throws(Failure) {
    switch ops[index].op {
    case .gatedDelta(let op, let sequences): try run(op, sequences)
    case .causalConv1d(let op, let sequences): try run(op, sequences)
    case .gatedRMSNorm(let op): try run(op)
    case .rmsNorm(let op): try run(op)
    case .gatedDeltaStep(let op, let sequences): try run(op, sequences)
    case .linear(let op): try run(op)
    case .elementwise(let op): try run(op)
    case .attention(let op, let sequences): try run(op, sequences)
    case .embedding(let op, let sequences): try run(op, sequences)
    case .route(let op): try run(op)
    case .expertLinear(let op): try run(op)
    case .combineExperts(let op): try run(op)
    case .topK(let op): try run(op)
    case .copySlots(let op, let sequences): try run(op, sequences)
    case .commitGatedDelta(let op, let sequences): try run(op, sequences)
    case .commitCausalConv1d(let op, let sequences): try run(op, sequences)
    }
  }
}
