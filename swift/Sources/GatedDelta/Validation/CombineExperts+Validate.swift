import CGatedDelta
import GatedDeltaTypes

extension gd_combine_experts: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let dims = try validator.dims(self.experts, "experts", "[tokens, k, dim]", rank: 3)
    let (tokens, chosen, dim) = (dims[0], dims[1], dims[2])
    let rows = Dims(tokens, dim)
    guard self.sharedGate.isAbsent || !self.shared.isAbsent else {
      throw Failure(.invalidArgument, argument: "sharedGate", expected: "nothing, since shared is none", received: "a tensor")
    }
    let floats = narrow
    let experts = try validator.input(self.experts, "experts", dims, "[tokens, k, dim]", floats)
    let weights = try validator.input(self.weights, "weights", Dims(tokens, chosen), "[tokens, k]", .f32, .block)
    var shared, sharedGate, residual: TensorView?
    if !self.shared.isAbsent { shared = try validator.input(self.shared, "shared", rows, "[tokens, dim]", floats) }
    if !self.sharedGate.isAbsent {
      sharedGate = try validator.input(self.sharedGate, "sharedGate", Dims(tokens, 1), "[tokens, 1]", floats)
    }
    var replacesResidual = false
    if !self.residual.isAbsent {
      let view = try validator.input(self.residual, "residual", rows, "[tokens, dim]", floats)
      replacesResidual = validator.forget(view, where: self.residual.isSame(self.out))
      residual = view
    }
    let out = try validator.output(self.out, "out", rows, "[tokens, dim]", floats)
    try validator.checkOverlaps()
    let op = CombineExperts(
      tokens: Int(tokens), chosen: Int(chosen), dim: Int(dim), experts: experts, weights: weights, shared: shared,
      sharedGate: sharedGate, residual: residual, out: out, replacesResidual: replacesResidual)
    // Without experts a token has the shared one, the residual or zeros: it must still be written.
    try validator.finish(.combineExperts(op), isEmpty: tokens == 0 || dim == 0)
  }

  private var sharedGate: gd_tensor { shared_gate }

  /// f32 and the first other dtype among the tensors, which later tensors must share.
  private var narrow: DTypes {
    let tensors = [experts, shared, shared_gate, residual, out]
    let dtypes = tensors.filter { !$0.isAbsent }.compactMap { DType(rawValue: $0.dtype) }
    let other = dtypes.first { $0 == .f16 || $0 == .bf16 }
    return other.map { .orF32($0) } ?? .floats
  }
}
