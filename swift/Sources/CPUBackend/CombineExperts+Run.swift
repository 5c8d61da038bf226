import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: CombineExperts) throws(Failure) {
    var params = gd_cpu_combine_experts(
      tokens: Int64(op.tokens), chosen: Int64(op.chosen), dim: Int64(op.dim), experts: gd_cpu_tensor(op.experts),
      shared: gd_cpu_tensor(op.shared), shared_gate: gd_cpu_tensor(op.sharedGate),
      residual: gd_cpu_tensor(op.residual), out: gd_cpu_tensor(op.out),
      weights: UnsafePointer(op.weights.pointer.assumingMemoryBound(to: Float.self)))
    let elements = Double(op.tokens) * Double(op.dim) * Double(op.chosen &+ 2)
    let items = gd_cpu_combine_experts_items(&params)
    launch(kernels.combine_experts, &params, cut(items, parts: parts(nanoseconds: elements * 0.2)))
  }
}
