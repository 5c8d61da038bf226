import GatedDeltaTypes

extension Pass {
  /// Refused by `MetalBackend.check`.
  mutating func encode(_ op: SiluMul) throws(Failure) {
    throw Failure(.unsupported, expected: "another op on the Metal backend", received: "siluMul")
  }
}

extension SiluMul {
  var work: Int { tokens * heads * dim }
}
