import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: RMSNorm) throws(Failure) {
    var params = gd_cpu_rms_norm(
      tokens: Int64(op.tokens), heads: Int64(op.heads), dim: Int64(op.dim), weight_form: op.options.weightForm.rawValue,
      eps: op.options.eps, x: gd_cpu_tensor(op.x), weight: gd_cpu_tensor(op.weight), out: gd_cpu_tensor(op.out))
    let rows = op.tokens &* op.heads
    launch(kernels.rms_norm, &params, cut(Int64(rows), parts: parts(nanoseconds: Double(rows) * Double(op.dim) * 0.3)))
  }
}
