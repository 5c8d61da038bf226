import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: Embedding, _ ids: Sequences) throws(Failure) {
    if let deviceIds = op.deviceIds { return run(op, from: deviceIds) }
    ids.readSlots.withUnsafeBufferPointer { run(op, ids: $0.baseAddress) }
  }

  private func run(_ op: Embedding, ids: UnsafePointer<Int32>?) {
    let parts = cut(
      Int64(op.rows), parts: self.parts(nanoseconds: Double(op.rows) * Double(op.dim) * 0.3))
    var params = gd_cpu_embedding(
      rows: Int64(op.rows), weight: gd_cpu_matrix(op.matrix), out: gd_cpu_tensor(op.out), ids: ids)
    launch(kernels.embedding, &params, parts)
  }

  private func run(_ op: Embedding, from tensor: TensorView) {
    let given = tensor.pointer.assumingMemoryBound(to: Int32.self)
    checkedIds.reserve(op.rows)
    var wrong: Failure?
    for row in 0..<op.rows {
      let id = given[row]
      let isRow = id >= 0 && Int(id) < op.vocabulary
      if !isRow, wrong == nil { wrong = op.failure(id: id, row: row) }
      checkedIds.start[row] = isRow ? id : -1
    }
    run(op, ids: checkedIds.start)
    if let wrong { fail(wrong) }
  }
}
