import GatedDeltaTypes

extension Op {
  /// What only the CPU backend computes so far.
  func refuseWhatHasNoKernel() throws(Failure) {
    switch self {
    case .linear(let op):
      if op.quantisation != nil { throw Self.unsupported("scales", "a weight of floats") }
      if op.residual != nil { throw Self.unsupported("residual", "none") }
    case .embedding: throw Self.unsupported("weight", "another op")
    case .siluMul: throw Self.unsupported("gate", "another op")
    default: break
    }
  }

  private static func unsupported(_ argument: String, _ expected: String) -> Failure {
    Failure(.unsupported, argument: argument, expected: "\(expected) on the Metal backend", received: "one")
  }
}
