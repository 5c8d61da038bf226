/// The weighted sum of a token's experts and what is added to it. See `gd_combine_experts`.
public final class CombineExperts: Sendable {
  public let tokens, chosen, dim: Int
  public let experts, weights: TensorView
  public let shared, sharedGate, residual: TensorView?
  public let out: TensorView
  /// True if `out` is the same memory as `residual`, in the same layout. Otherwise it overlaps no other tensor.
  public let replacesResidual: Bool

  public init(
    tokens: Int, chosen: Int, dim: Int, experts: TensorView, weights: TensorView, shared: TensorView? = nil,
    sharedGate: TensorView? = nil, residual: TensorView? = nil, out: TensorView, replacesResidual: Bool = false
  ) {
    self.tokens = tokens
    self.chosen = chosen
    self.dim = dim
    self.experts = experts
    self.weights = weights
    self.shared = shared
    self.sharedGate = sharedGate
    self.residual = residual
    self.out = out
    self.replacesResidual = replacesResidual
  }
}
