import GatedDeltaTypes

extension Pass {
  mutating func encode(_ op: Route) throws(Failure) { throw Self.noKernel }
  mutating func encode(_ op: ExpertLinear) throws(Failure) { throw Self.noKernel }
  mutating func encode(_ op: CombineExperts) throws(Failure) { throw Self.noKernel }

  private static var noKernel: Failure {
    Failure(.unsupported, argument: "device", expected: "a CPU device", received: "a GPU, which has no such kernel")
  }
}

extension Route {
  var work: Int { tokens * experts }
}

extension ExpertLinear {
  var work: Int { rows * inFeatures * outFeatures }
}

extension CombineExperts {
  var work: Int { tokens * (chosen + 2) * dim }
}
