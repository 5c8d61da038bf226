/// SiLU of one tensor times another of its shape.
public final class SiluMul: Sendable {
  public let tokens, heads, dim: Int
  public let gate, up, out: TensorView
  /// True if `out` is the same memory as `gate` or `up`, in the same layout. Otherwise it overlaps neither.
  public let replacesGate, replacesUp: Bool

  public init(
    tokens: Int, heads: Int, dim: Int, gate: TensorView, up: TensorView, out: TensorView, replacesGate: Bool,
    replacesUp: Bool
  ) {
    self.tokens = tokens
    self.heads = heads
    self.dim = dim
    self.gate = gate
    self.up = up
    self.out = out
    self.replacesGate = replacesGate
    self.replacesUp = replacesUp
  }
}
