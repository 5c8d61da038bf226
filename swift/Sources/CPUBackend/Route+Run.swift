import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: Route) throws(Failure) {
    var params = gd_cpu_route(
      tokens: Int64(op.tokens), experts: Int64(op.experts), chosen: Int64(op.chosen), normalize: op.options.normalize ? 1 : 0,
      logits: gd_cpu_tensor(op.logits), ids: op.ids.pointer.assumingMemoryBound(to: Int32.self),
      weights: op.weights.pointer.assumingMemoryBound(to: Float.self))
    let elements = Double(op.tokens) * Double(op.experts)
    launch(kernels.route, &params, cut(Int64(op.tokens), parts: parts(nanoseconds: elements * 2)))
  }
}
