import CPUKernels
import GatedDeltaTypes

/// Memory for rows of x in the form that the kernels of a weight format take, and a record of the rows in it. Linears that follow each
/// other often multiply the same x, which is written there once, for the first of them.
struct HeldRows {
  let memory = ReusedPages()
  private var x = gd_cpu_tensor(nil)
  private var rows = 0, columns = 0
  private var format: WeightFormat?

  /// Whether the memory already has these rows; from now on it does.
  mutating func hold(_ x: gd_cpu_tensor, rows: Int, columns: Int, for format: WeightFormat) -> Bool {
    let has = self.format == format && self.rows == rows && self.columns == columns
      && self.x.data == x.data && self.x.dtype == x.dtype && self.x.token_stride == x.token_stride
    (self.x, self.rows, self.columns, self.format) = (x, rows, columns, format)
    return has
  }

  mutating func forget() { format = nil }

  /// Forgets the rows if the op wrote where x is.
  mutating func forget(writtenBy op: Linear) {
    guard format != nil else { return }
    let held = Extent(x.data, elements: (rows &- 1) &* Int(x.token_stride) &+ columns, of: MemoryLayout<Float>.size)
    if held.overlaps(Extent(op.out, rows: op.rows, columns: op.outFeatures)) { forget() }
  }
}
