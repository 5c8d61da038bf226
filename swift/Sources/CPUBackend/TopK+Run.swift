import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: TopK) throws(Failure) {
    var params = gd_cpu_top_k(
      rows: Int64(op.rows), columns: Int64(op.columns), chosen: Int64(op.chosen), x: gd_cpu_tensor(op.x),
      values: op.values.pointer.assumingMemoryBound(to: Float.self),
      ids: op.ids.pointer.assumingMemoryBound(to: Int32.self))
    let elements = Double(op.rows) * Double(op.columns)
    launch(kernels.top_k, &params, cut(Int64(op.rows), parts: parts(nanoseconds: elements * 0.2)))
  }
}
