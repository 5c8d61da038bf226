import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: Route) throws(Failure) {
    try dispatch(
      Kernel(family: .route, activation: op.logits.dtype),
      [
        .reads(op.logits, tokens: op.tokens, width: op.experts), .writes(op.ids, elements: op.tokens * op.chosen),
        .writes(op.weights, elements: op.tokens * op.chosen),
      ],
      GDMRoute(
        experts: UInt32(element: op.experts), chosen: UInt32(element: op.chosen), normalize: op.options.normalize ? 1 : 0,
        logitsRowStride: UInt32(element: op.logits.tokenStride)),
      groups: (op.tokens, 1, 1), threads: .exactly(GDM_ROUTE_THREADS),
      threadgroupBytes: ThreadgroupBytes.route(experts: op.experts))
  }
}

extension Route {
  var work: Int { tokens * experts * ceilDiv(experts, 64) }
}
