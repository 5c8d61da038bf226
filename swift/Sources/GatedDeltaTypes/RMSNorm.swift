/// RMS norm without a gate.
public final class RMSNorm: Sendable {
  public let tokens, heads, dim: Int
  public let options: Options
  public let x, weight, out: TensorView

  public init(
    tokens: Int, heads: Int, dim: Int, options: Options, x: TensorView, weight: TensorView, out: TensorView
  ) {
    self.tokens = tokens
    self.heads = heads
    self.dim = dim
    self.options = options
    self.x = x
    self.weight = weight
    self.out = out
  }
}
