import CGatedDelta
import GatedDeltaTypes

extension gd_top_k: OpDescriptor {
  /// The Metal kernels keep 16 pairs for each in threadgroup memory.
  private static let mostChosen: UInt32 = 128
  private static let mostColumns: UInt32 = 1 << 20

  func validate(_ validator: inout Validator) throws(Failure) {
    let dims = try validator.dims(self.x, "x", "[rows, columns]", rank: 2)
    let (rows, columns) = (dims[0], dims[1])
    guard columns >= 1, columns <= Self.mostColumns else {
      throw Failure(
        .shape, argument: "x", expected: "[rows, columns] with 1..\(Self.mostColumns) columns", received: dims.text)
    }
    let chosen = try validator.dims(self.values, "values", "[rows, k]", rank: 2)[1]
    let most = min(columns, Self.mostChosen)
    guard chosen >= 1, chosen <= most else {
      throw Failure(
        .shape, argument: "values", expected: "[rows, k] with k in 1..\(most)", received: Dims(self.values).text)
    }
    let x = try validator.input(self.x, "x", dims, "[rows, columns]", .floats)
    let values = try validator.output(self.values, "values", Dims(rows, chosen), "[rows, k]", .f32, .block)
    let ids = try validator.output(self.ids, "ids", Dims(rows, chosen), "[rows, k]", .id32, .block)
    try validator.checkOverlaps()
    let op = TopK(
      rows: Int(rows), columns: Int(columns), chosen: Int(chosen), x: x, values: values, ids: ids)
    try validator.finish(.topK(op), isEmpty: rows == 0)
  }
}
