import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: Add) throws(Failure) {
    var params = gd_cpu_add(
      tokens: Int64(op.tokens), heads: Int64(op.heads), dim: Int64(op.dim), a: gd_cpu_tensor(op.a),
      b: gd_cpu_tensor(op.b), out: gd_cpu_tensor(op.out))
    let rows = op.tokens &* op.heads
    launch(kernels.add, &params, cut(Int64(rows), parts: parts(nanoseconds: Double(rows) * Double(op.dim) * 0.2)))
  }
}
