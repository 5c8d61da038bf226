/// Rows of a matrix by number. The numbers are in its `Sequences`: `readSlots` are the ids, one for each row of `out`,
/// each in 0..<vocabulary. See `gd_embedding`.
public final class Embedding: Sendable {
  public let rows, vocabulary, dim: Int
  /// [vocabulary, dim]; see `Quantisation`.
  public let weight: TensorView
  public let quantisation: Quantisation?
  public let out: TensorView

  public init(
    rows: Int, vocabulary: Int, dim: Int, weight: TensorView, quantisation: Quantisation? = nil, out: TensorView
  ) {
    self.rows = rows
    self.vocabulary = vocabulary
    self.dim = dim
    self.weight = weight
    self.quantisation = quantisation
    self.out = out
  }
}
