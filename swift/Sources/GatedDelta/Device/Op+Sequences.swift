import GatedDeltaTypes

extension Op {
  /// The public name, for messages.
  var name: String {
    switch self {
    case .gatedDelta: "gatedDelta"
    case .causalConv1d: "causalConv1d"
    case .gatedRMSNorm: "gatedRmsNorm"
    case .gatedDeltaStep: "gatedDeltaStep"
    case .linear: "linear"
    case .copySlots: "copySlots"
    case .commitGatedDelta: "commitGatedDelta"
    case .commitCausalConv1d: "commitCausalConv1d"
    }
  }

  /// The part that index data decides; nil for ops without any.
  var sequences: Sequences? {
    get {
      switch self {
      case .gatedDelta(_, let sequences), .causalConv1d(_, let sequences), .gatedDeltaStep(_, let sequences),
        .copySlots(_, let sequences), .commitGatedDelta(_, let sequences), .commitCausalConv1d(_, let sequences):
        sequences
      case .gatedRMSNorm, .linear: nil
      }
    }
    set {
      guard let newValue else { return }
      switch self {
      case .gatedDelta(let op, _): self = .gatedDelta(op, newValue)
      case .causalConv1d(let op, _): self = .causalConv1d(op, newValue)
      case .gatedDeltaStep(let op, _): self = .gatedDeltaStep(op, newValue)
      case .copySlots(let op, _): self = .copySlots(op, newValue)
      case .commitGatedDelta(let op, _): self = .commitGatedDelta(op, newValue)
      case .commitCausalConv1d(let op, _): self = .commitCausalConv1d(op, newValue)
      case .gatedRMSNorm, .linear: break
      }
    }
  }
}
