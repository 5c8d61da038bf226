// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

/// A validated op and, if it has any, the part that index data decides.
public enum Op: Sendable {
  case gatedDelta(GatedDelta, Sequences)
  case causalConv1d(CausalConv1d, Sequences)
  case gatedRMSNorm(GatedRMSNorm)
  case rmsNorm(RMSNorm)
  case gatedDeltaStep(GatedDeltaStep, Sequences)
  case linear(Linear)
  case elementwise(Elementwise)
  case attention(Attention, Sequences)
  case embedding(Embedding, Sequences)
  case route(Route)
  case expertLinear(ExpertLinear)
  case combineExperts(CombineExperts)
  case topK(TopK)
  case copySlots(CopySlots, Sequences)
  case commitGatedDelta(CommitGatedDelta, Sequences)
  case commitCausalConv1d(CommitCausalConv1d, Sequences)

  /// The public name, for messages.
  public var name: String {
    switch self {
    case .gatedDelta: "gatedDelta"
    case .causalConv1d: "causalConv1d"
    case .gatedRMSNorm: "gatedRmsNorm"
    case .rmsNorm: "rmsNorm"
    case .gatedDeltaStep: "gatedDeltaStep"
    case .linear: "linear"
    case .elementwise(let op): op.operation.publicName
    case .attention: "attention"
    case .embedding: "embedding"
    case .route: "route"
    case .expertLinear: "expertLinear"
    case .combineExperts: "combineExperts"
    case .topK: "topK"
    case .copySlots: "copySlots"
    case .commitGatedDelta: "commitGatedDelta"
    case .commitCausalConv1d: "commitCausalConv1d"
    }
  }

  /// The part that index data decides; nil for ops without any.
  public var sequences: Sequences? {
    get {
      switch self {
      case .gatedDelta(_, let sequences): sequences
      case .causalConv1d(_, let sequences): sequences
      case .gatedDeltaStep(_, let sequences): sequences
      case .attention(_, let sequences): sequences
      case .embedding(_, let sequences): sequences
      case .copySlots(_, let sequences): sequences
      case .commitGatedDelta(_, let sequences): sequences
      case .commitCausalConv1d(_, let sequences): sequences
      case .gatedRMSNorm, .rmsNorm, .linear, .elementwise, .route, .expertLinear, .combineExperts, .topK: nil
      }
    }
    set {
      guard let newValue else { return }
      switch self {
      case .gatedDelta(let op, _): self = .gatedDelta(op, newValue)
      case .causalConv1d(let op, _): self = .causalConv1d(op, newValue)
      case .gatedDeltaStep(let op, _): self = .gatedDeltaStep(op, newValue)
      case .attention(let op, _): self = .attention(op, newValue)
      case .embedding(let op, _): self = .embedding(op, newValue)
      case .copySlots(let op, _): self = .copySlots(op, newValue)
      case .commitGatedDelta(let op, _): self = .commitGatedDelta(op, newValue)
      case .commitCausalConv1d(let op, _): self = .commitCausalConv1d(op, newValue)
      case .gatedRMSNorm, .rmsNorm, .linear, .elementwise, .route, .expertLinear, .combineExperts, .topK: break
      }
    }
  }
}

extension ElementwiseOperation {
  /// The name of its Metal kernels, without dtypes.
  public var kernel: String {
    switch self {
    case .add: "gd_add"
    case .siluMul: "gd_silu_mul"
    }
  }
}
