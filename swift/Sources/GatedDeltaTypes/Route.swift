/// The best experts of each token. See `gd_route`.
public final class Route: Sendable {
  public let tokens, experts, chosen: Int
  public let normalize: Bool
  public let logits, ids, weights: TensorView

  public init(
    tokens: Int, experts: Int, chosen: Int, normalize: Bool, logits: TensorView, ids: TensorView, weights: TensorView
  ) {
    self.tokens = tokens
    self.experts = experts
    self.chosen = chosen
    self.normalize = normalize
    self.logits = logits
    self.ids = ids
    self.weights = weights
  }
}
