/// Rows of a matrix by number. The numbers are in its `Sequences`: `readSlots` are the ids, one for each row of `out`,
/// each in 0..<vocabulary. See `gd_embedding`.
public final class Embedding: Sendable {
  public let rows: Int
  /// [vocabulary, dim]
  public let matrix: Matrix
  public let out: TensorView

  public var vocabulary: Int { matrix.rows }
  public var dim: Int { matrix.columns }

  public init(rows: Int, matrix: Matrix, out: TensorView) {
    self.rows = rows
    self.matrix = matrix
    self.out = out
  }
}
