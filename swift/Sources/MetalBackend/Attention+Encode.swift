import GatedDeltaTypes

extension Pass {
  mutating func encode(_ op: Attention, _ sequences: Sequences) throws(Failure) {
    throw Failure(.unsupported, argument: "query", expected: "an op that Metal has", received: "attention")
  }
}

extension Attention {
  func work(_ sequences: Sequences) -> Int { tokens * heads * headDim }
}
