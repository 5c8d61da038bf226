import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: GatedRMSNorm) throws(Failure) {
    let rows = op.tokens * op.heads
    var kernel = Kernel(family: .norm, activation: op.z.dtype)
    kernel.constants.set(.normSigmoid, op.options.activation == .sigmoid)
    kernel.constants.set(.normGateFirst, op.options.order == .gateThenNorm)
    kernel.constants.set(.normXF32, op.x.dtype == .f32)
    kernel.constants.set(.normWeightDType, op.weight.dtype)
    kernel.constants.set(.normParts, UInt32(op.dim <= 4 * GDM_SIMD_LANES ? 1 : 2))
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    kernel.constants.set(
      .alignedRows,
      op.x.isAligned(to: 4, rowsOf: op.dim) && op.z.isAligned(to: 4, rowsOf: op.dim)
        && op.out.isAligned(to: 4, rowsOf: op.dim))
    kernel.constants.set(.normWeightVectors, op.weight.offset % 16 == 0)
    try dispatch(
      kernel,
      [
        .reads(op.x, tokens: op.tokens, heads: op.heads, width: op.dim),
        .reads(op.z, tokens: op.tokens, heads: op.heads, width: op.dim), .reads(op.weight, elements: op.dim),
        .writes(op.out, tokens: op.tokens, heads: op.heads, width: op.dim),
      ],
      GDMNorm(
        rows: UInt32(element: rows), heads: UInt32(element: op.heads), length: UInt32(element: op.dim),
        xTokenStride: UInt32(element: op.x.tokenStride), xHeadStride: UInt32(element: op.x.headStride),
        zTokenStride: UInt32(element: op.z.tokenStride), zHeadStride: UInt32(element: op.z.headStride),
        outTokenStride: UInt32(element: op.out.tokenStride), outHeadStride: UInt32(element: op.out.headStride),
        epsilon: op.options.eps),
      groups: (ceilDiv(rows, GDM_NORM_ROWS), 1, 1), threads: .exactly(GDM_NORM_THREADS))
  }
}
