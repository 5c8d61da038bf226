import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: CombineExperts) throws(Failure) {
    let dtypes = [op.experts, op.shared, op.sharedGate, op.residual, op.out].compactMap { $0?.dtype }
    var kernel = Kernel(family: .combineExperts, activation: dtypes.first { $0 != .f32 } ?? .f32)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    let rows = [op.experts, op.shared, op.residual, op.out].compactMap { $0 }
    kernel.constants.set(.alignedRows, rows.allSatisfy { $0.isAligned(to: 4, rowsOf: op.dim) })
    func reads(_ tensor: TensorView?, width: Int) throws(Failure) -> Argument {
      guard let tensor else { return .absent }
      return try .reads(tensor, tokens: op.tokens, width: width)
    }
    try dispatch(
      kernel,
      [
        .reads(op.experts, tokens: op.tokens, heads: op.chosen, width: op.dim),
        .reads(op.weights, elements: op.tokens * op.chosen), reads(op.shared, width: op.dim),
        reads(op.sharedGate, width: 1), op.replacesResidual ? .absent : reads(op.residual, width: op.dim),
        .writes(op.out, tokens: op.tokens, width: op.dim),
      ],
      GDMCombine(
        ranks: UInt32(element: op.chosen), length: UInt32(element: op.dim), wide: op.wide,
        hasShared: op.shared == nil ? 0 : 1, hasGate: op.sharedGate == nil ? 0 : 1,
        residual: UInt32(op.replacesResidual ? GDM_RESIDUAL_OUT : op.residual == nil ? GDM_RESIDUAL_NONE : GDM_RESIDUAL_T),
        expertsTokenStride: UInt32(element: op.experts.tokenStride),
        expertsRankStride: UInt32(element: op.experts.headStride),
        sharedTokenStride: UInt32(element: op.shared?.tokenStride ?? 0),
        gateTokenStride: UInt32(element: op.sharedGate?.tokenStride ?? 0),
        residualTokenStride: UInt32(element: op.residual?.tokenStride ?? 0),
        outTokenStride: UInt32(element: op.out.tokenStride)),
      groups: (op.tokens, ceilDiv(op.dim, 4 * GDM_COMBINE_THREADS), 1), threads: .exactly(GDM_COMBINE_THREADS))
  }
}

extension CombineExperts {
  var work: Int { tokens * (chosen + 2) * dim }

  /// The tensors that are f32.
  fileprivate var wide: UInt32 {
    let all = [
      (experts, GDM_COMBINE_EXPERTS), (shared, GDM_COMBINE_SHARED), (sharedGate, GDM_COMBINE_GATE),
      (residual, GDM_COMBINE_RESIDUAL),
    ]
    return all.reduce(0) { $1.0?.dtype == .f32 ? $0 | UInt32($1.1) : $0 }
  }
}
