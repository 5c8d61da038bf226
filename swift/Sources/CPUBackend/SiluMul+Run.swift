import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: SiluMul) throws(Failure) {
    var params = gd_cpu_silu_mul(
      tokens: Int64(op.tokens), heads: Int64(op.heads), dim: Int64(op.dim), gate: gd_cpu_tensor(op.gate),
      up: gd_cpu_tensor(op.up), out: gd_cpu_tensor(op.out))
    let rows = op.tokens &* op.heads
    launch(kernels.silu_mul, &params, cut(Int64(rows), parts: parts(nanoseconds: Double(rows) * Double(op.dim) * 1)))
  }
}
