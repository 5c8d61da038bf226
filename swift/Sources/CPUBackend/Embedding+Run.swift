import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: Embedding, _ ids: Sequences) throws(Failure) {
    let parts = cut(
      Int64(op.rows), parts: self.parts(nanoseconds: Double(op.rows) * Double(op.dim) * 0.3))
    ids.readSlots.withUnsafeBufferPointer { ids in
      var params = gd_cpu_embedding(
        rows: Int64(op.rows), weight: gd_cpu_matrix(op.matrix),
        out: gd_cpu_tensor(op.out), ids: ids.baseAddress)
      launch(kernels.embedding, &params, parts)
    }
  }
}
