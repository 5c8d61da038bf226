import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: SiluMul) throws(Failure) {
    let rows = op.tokens * op.heads
    var kernel = Kernel(family: .siluMul, activation: op.up.dtype)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    kernel.constants.set(
      .alignedRows,
      op.gate.isAligned(to: 4, rowsOf: op.dim)
        && op.up.isAligned(to: 4, rowsOf: op.dim)
        && op.out.isAligned(to: 4, rowsOf: op.dim))
    try dispatch(
      kernel,
      [
        op.replacesGate ? .absent : .reads(op.gate, tokens: op.tokens, heads: op.heads, width: op.dim),
        op.replacesUp ? .absent : .reads(op.up, tokens: op.tokens, heads: op.heads, width: op.dim),
        .writes(op.out, tokens: op.tokens, heads: op.heads, width: op.dim),
      ],
      GDMAdd(
        heads: UInt32(element: op.heads), length: UInt32(element: op.dim),
        aTokenStride: UInt32(element: op.gate.tokenStride), aHeadStride: UInt32(element: op.gate.headStride),
        bTokenStride: UInt32(element: op.up.tokenStride), bHeadStride: UInt32(element: op.up.headStride),
        outTokenStride: UInt32(element: op.out.tokenStride), outHeadStride: UInt32(element: op.out.headStride),
        aF32: op.gate.dtype == .f32 ? 1 : 0, replacesA: op.replacesGate ? 1 : 0, replacesB: op.replacesUp ? 1 : 0),
      groups: (rows, ceilDiv(op.dim, 4 * GDM_ADD_PARTS * GDM_COPY_THREADS), 1), threads: .exactly(GDM_COPY_THREADS))
  }
}

extension SiluMul {
  var work: Int { tokens * heads * dim }
}
