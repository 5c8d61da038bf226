/// The largest elements of each row. See `gd_top_k`.
public final class TopK: Sendable {
  public let rows, columns, chosen: Int
  public let x, values, ids: TensorView

  public init(rows: Int, columns: Int, chosen: Int, x: TensorView, values: TensorView, ids: TensorView) {
    self.rows = rows
    self.columns = columns
    self.chosen = chosen
    self.x = x
    self.values = values
    self.ids = ids
  }
}
