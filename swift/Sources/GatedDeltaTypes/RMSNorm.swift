/// RMS norm without a gate.
public final class RMSNorm: Sendable {
  public let tokens, heads, dim: Int
  public let weightForm: WeightForm
  public let eps: Float
  public let x, weight, out: TensorView

  public init(
    tokens: Int, heads: Int, dim: Int, weightForm: WeightForm, eps: Float, x: TensorView, weight: TensorView,
    out: TensorView
  ) {
    self.tokens = tokens
    self.heads = heads
    self.dim = dim
    self.weightForm = weightForm
    self.eps = eps
    self.x = x
    self.weight = weight
    self.out = out
  }
}
