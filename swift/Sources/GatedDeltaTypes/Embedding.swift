/// Rows of a matrix by number. The numbers are in its `Sequences`: `readSlots` are the ids, one for each row of `out`,
/// each in 0..<vocabulary; or an earlier op writes them. See `gd_embedding`.
public final class Embedding: Sendable {
  public let rows: Int
  /// [vocabulary, dim]
  public let matrix: Matrix
  public let out: TensorView
  /// [rows], in place of those of the `Sequences`. They may be any numbers: the kernel that reads them checks them.
  public let deviceIds: TensorView?

  public var vocabulary: Int { matrix.rows }
  public var dim: Int { matrix.columns }

  public init(rows: Int, matrix: Matrix, out: TensorView, deviceIds: TensorView? = nil) {
    self.rows = rows
    self.matrix = matrix
    self.out = out
    self.deviceIds = deviceIds
  }

  /// The failure of a submission that has read an id of no row of the matrix.
  public func failure(id: Int32, row: Int) -> Failure {
    Failure(
      .range, argument: "deviceIds[\(row)]", expected: "a row in 0..<\(vocabulary)", received: "\(id)")
  }
}
