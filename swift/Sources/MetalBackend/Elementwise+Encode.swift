import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: Elementwise) throws(Failure) {
    let rows = op.tokens * op.heads
    var kernel = Kernel(family: .elementwise, operation: op.operation, activation: op.b.dtype)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    kernel.constants.set(
      .alignedRows,
      op.a.isAligned(to: 4, rowsOf: op.dim)
        && op.b.isAligned(to: 4, rowsOf: op.dim)
        && op.out.isAligned(to: 4, rowsOf: op.dim))
    try dispatch(
      kernel,
      [
        op.replacesA ? .absent : .reads(op.a, tokens: op.tokens, heads: op.heads, width: op.dim),
        op.replacesB ? .absent : .reads(op.b, tokens: op.tokens, heads: op.heads, width: op.dim),
        .writes(op.out, tokens: op.tokens, heads: op.heads, width: op.dim),
      ],
      GDMElementwise(
        heads: UInt32(element: op.heads), length: UInt32(element: op.dim),
        aTokenStride: UInt32(element: op.a.tokenStride), aHeadStride: UInt32(element: op.a.headStride),
        bTokenStride: UInt32(element: op.b.tokenStride), bHeadStride: UInt32(element: op.b.headStride),
        outTokenStride: UInt32(element: op.out.tokenStride), outHeadStride: UInt32(element: op.out.headStride),
        aF32: op.a.dtype == .f32 ? 1 : 0, replacesA: op.replacesA ? 1 : 0, replacesB: op.replacesB ? 1 : 0),
      groups: (rows, ceilDiv(op.dim, 4 * GDM_ELEMENTWISE_PARTS * GDM_COPY_THREADS), 1),
      threads: .exactly(GDM_COPY_THREADS))
  }
}

extension Elementwise {
  var work: Int { tokens * heads * dim }
}
