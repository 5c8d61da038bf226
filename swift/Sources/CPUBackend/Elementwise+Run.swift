import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: Elementwise) throws(Failure) {
    var params = gd_cpu_elementwise(
      operation: op.operation.rawValue, tokens: Int64(op.tokens), heads: Int64(op.heads), dim: Int64(op.dim),
      a: gd_cpu_tensor(op.a), b: gd_cpu_tensor(op.b), out: gd_cpu_tensor(op.out))
    let rows = op.tokens &* op.heads
    // Operations other than a sum compute an exponential.
    let nanoseconds = Double(rows) * Double(op.dim) * (op.operation == .add ? 0.2 : 1)
    launch(kernels.elementwise, &params, cut(Int64(rows), parts: parts(nanoseconds: nanoseconds)))
  }
}
