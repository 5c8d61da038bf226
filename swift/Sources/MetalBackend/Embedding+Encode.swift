import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: Embedding, _ ids: Sequences) throws(Failure) {
    guard op.rows > 0, op.dim > 0 || op.deviceIds != nil else { return }
    var kernel = Kernel(family: .embedding, activation: op.out.dtype, format: op.matrix.format)
    kernel.constants.setMatrix(op.matrix)
    kernel.constants.set(.alignedRows, false)
    var (given, check) = (Argument.absent, Argument.absent)
    if let deviceIds = op.deviceIds {
      let checked = try IndexCheck(op, &arena)
      checks.append(checked)
      (given, check) = (try .reads(deviceIds, elements: op.rows), .writes(checked.region))
    } else {
      given = .reads(try arena.region(copying: ids.readSlots))
    }
    // Without elements, there are only ids to check.
    try dispatch(
      kernel,
      [
        .blocks(of: op.matrix), .companion(op.matrix.scales, of: op.matrix), .companion(op.matrix.biases, of: op.matrix),
        .writes(op.out, tokens: op.rows, width: op.dim), given, check,
      ],
      GDMEmbedding(
        columns: UInt32(element: op.dim), outRowStride: UInt32(element: op.out.tokenStride),
        vocabulary: UInt32(element: op.vocabulary)),
      groups: (max(1, ceilDiv(op.dim, 8 * GDM_EMBEDDING_THREADS)), op.rows, 1), threads: .exactly(GDM_EMBEDDING_THREADS))
  }
}

extension Embedding {
  func work(_ ids: Sequences) -> Int { rows * dim }
}
