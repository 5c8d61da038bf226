import GatedDeltaTypes

extension Pass {
  /// Refused by `MetalBackend.check`.
  mutating func encode(_ op: Embedding, _ ids: Sequences) throws(Failure) {
    throw Failure(.unsupported, expected: "another op on the Metal backend", received: "embedding")
  }
}

extension Embedding {
  func work(_ ids: Sequences) -> Int { rows * dim }
}
