import CPUKernels
import GatedDeltaTypes

extension ActivationForm {
  /// How x is rounded for a matrix; nil if it is multiplied as it is.
  func form(of matrix: Matrix) -> gd_cpu_int8_form? {
    guard self == .int8 else { return nil }
    let form = gd_cpu_int8_form_of(matrix.format.rawValue)
    return form.group > 0 ? form : nil
  }
}

extension Executor {
  /// `linear` with int8 activations: some rows of x are rounded once, then all outputs take them.
  func run(_ op: Linear, _ form: gd_cpu_int8_form) throws(Failure) {
    let columns = op.inFeatures
    let most = RoundedRows.most(columns: columns, form)
    for first in stride(from: 0, to: op.rows, by: most) {
      let rows = min(most, op.rows &- first)
      let turned = kernels.int8_turned_bytes(op.matrix.format.rawValue, Int64(rows), Int64(columns))
      var rounded = try roundedRows.make(rows: rows, columns: columns, form, turned: Int(turned))
      rounded.format = op.matrix.format.rawValue
      rounded.x = gd_cpu_tensor(op.x, from: first)
      if !roundedRows.held.hold(rounded.x, rows: rows, columns: columns, for: op.matrix.format) { round(&rounded) }
      var residual = gd_cpu_tensor(nil)
      if let view = op.residual { residual = gd_cpu_tensor(view, from: first) }
      withUnsafePointer(to: &rounded) { rounded in
        let params = gd_cpu_linear(
          rows: Int64(rows), out_features: Int64(op.outFeatures), x: rounded.pointee.x, residual: residual,
          out: gd_cpu_tensor(op.out, from: first), weight: gd_cpu_matrix(op.matrix), places: nil, ranks: 1, rounded: rounded,
          arranged: nil)
        var all = linears.parameters(params, run: kernels.int8_linear, from: first)
        let products = Double(rows) * Double(columns) * Double(linears.outFeatures)
        var parts = smallParts(nanoseconds: products * (rows == 1 ? 0.04 : 0.015), most: 128)
        // Long parts: the first pages of each are not asked for in time.
        if rows > 1 { parts = min(parts, max(threads, Int(all.items) / 32)) }
        // The shortest parts take a few microseconds.
        launch(gd_cpu_linears_run, &all, cut(all.items, parts: parts, least: rows > 1 ? max(2, 16 / rows) : .max))
      }
    }
  }

  /// The same with the matrices of experts.
  func run(_ op: ExpertLinear, _ form: gd_cpu_int8_form) throws(Failure) {
    let each = op.sharesRows ? 1 : op.chosen
    let most = max(1, RoundedRows.most(columns: op.inFeatures, form) / each)
    for first in stride(from: 0, to: op.tokens, by: most) {
      let tokens = first..<min(first &+ most, op.tokens)
      var rounded = try roundedRows.make(rows: tokens.count &* each, columns: op.inFeatures, form)
      rounded.x = gd_cpu_tensor(op.x, from: first)
      rounded.ranks = Int64(each)
      rounded.shared = op.sharesRows ? Int64(op.chosen) : 1
      round(&rounded)
      let x = rounded.x
      withUnsafePointer(to: &rounded) { run(op, tokens: tokens, by: kernels.int8_expert_linear, x: x, rounded: $0) }
    }
  }

  private func round(_ rows: inout gd_cpu_int8_rows) {
    let elements = Double(rows.rows) * Double(rows.columns)
    let items = gd_cpu_int8_rows_items(&rows)
    launch(kernels.int8_rows, &rows, cut(items, parts: parts(nanoseconds: elements * (rows.turned == nil ? 0.25 : 0.5))))
  }
}

/// Rows of x as bytes.
final class RoundedRows {
  var held = HeldRows()

  /// The most bytes of rows, unless a single one takes more: all threads soon read them. The kernels' own order takes as many again,
  /// or fewer.
  private static let mostBytes = 8 << 20

  private static func bytes(columns: Int, _ form: gd_cpu_int8_form) -> (values: Int, factors: Int) {
    (Int(gd_cpu_int8_stride(Int64(columns), form)), columns / Int(form.group) &* 4)
  }

  /// The number of rows that are rounded at a time.
  static func most(columns: Int, _ form: gd_cpu_int8_form) -> Int {
    let (values, factors) = bytes(columns: columns, form)
    return max(1, mostBytes / (values &+ 3 &* factors))
  }

  /// Leaves out x and the format. turned: bytes of the rows in the order in which the kernels take several.
  func make(rows: Int, columns: Int, _ form: gd_cpu_int8_form, turned: Int = 0) throws(Failure) -> gd_cpu_int8_rows {
    let (values, factors) = RoundedRows.bytes(columns: columns, form)
    // Vectors read beyond the last factors.
    let ofFactors = (rows &* factors &+ 127) / 64 &* 64
    let ofAll = rows &* values &+ 3 &* ofFactors
    let start = try held.memory.reserve(ofAll &+ turned)
    func floats(_ index: Int) -> UnsafeMutableRawPointer {
      start + (rows &* values &+ index &* ofFactors)
    }
    return gd_cpu_int8_rows(
      rows: Int64(rows), columns: Int64(columns), ranks: 1, x: gd_cpu_tensor(nil), form: form, stride: Int64(values),
      groups: Int64(columns / Int(form.group)), values: start.assumingMemoryBound(to: Int8.self),
      scales: floats(0).assumingMemoryBound(to: Float.self), sums: floats(1).assumingMemoryBound(to: Float.self),
      starts: floats(2).assumingMemoryBound(to: Int32.self), shared: 1,
      turned: turned > 0 ? (start + ofAll).assumingMemoryBound(to: UInt8.self) : nil, format: 0)
  }
}
