/// The best experts of each token. See `gd_route`.
public final class Route: Sendable {
  public let tokens, experts, chosen: Int
  public let options: Options
  public let logits, ids, weights: TensorView

  public init(
    tokens: Int, experts: Int, chosen: Int, options: Options, logits: TensorView, ids: TensorView, weights: TensorView
  ) {
    self.tokens = tokens
    self.experts = experts
    self.chosen = chosen
    self.options = options
    self.logits = logits
    self.ids = ids
    self.weights = weights
  }
}
