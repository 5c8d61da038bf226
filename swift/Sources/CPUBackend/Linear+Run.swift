import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: Linear) throws(Failure) {
    defer {
      linears.forget(in: &arrangedRows)
      linears.forget(in: &roundedRows.held)
    }
    if let form = op.options.activations.form(of: op.matrix) { return try run(op, form) }
    var params = gd_cpu_linear(
      rows: Int64(op.rows), out_features: Int64(op.outFeatures), x: gd_cpu_tensor(op.x),
      residual: gd_cpu_tensor(op.residual), out: gd_cpu_tensor(op.out),
      weight: gd_cpu_matrix(op.matrix), places: nil, ranks: 1, rounded: nil, arranged: nil)
    let panels = gd_cpu_linear_panels(&params)
    let outFeatures = Double(linears.outFeatures)
    let products = Double(op.rows) * Double(op.inFeatures) * outFeatures
    // With one row by floats, reading takes longer than multiplying.
    let bytes = outFeatures * Double(op.matrix.format.layout.stored(columns: op.inFeatures) &* op.matrix.weight.dtype.size)
    let floats = op.rows > 1 ? Int(kernels.arrange_linear(&params, nil)) : 0
    // Parts of many rows are long, since each copies them.
    var parts = smallParts(nanoseconds: max(products * 0.05, bytes * 0.06), most: floats > 0 || op.rows == 1 ? 128 : 32)
    if floats > 0 {
      let memory = try arrangedRows.memory.reserve(floats &* MemoryLayout<Float>.size).assumingMemoryBound(to: Float.self)
      let isHeld = arrangedRows.hold(params.x, rows: op.rows, columns: op.inFeatures, for: op.matrix.format)
      if !isHeld { _ = kernels.arrange_linear(&params, memory) }
      params.arranged = UnsafePointer(memory)
    }
    var all = linears.parameters(params, run: kernels.linear)
    let items = all.items &* panels
    if floats == 0 {
      // Each part copies its rows of x into the kernels' order, a twentieth of the time that eight blocks of outputs take. A few rows
      // are copied once for all parts; with one row that is no gain.
      parts = min(parts, max(threads, Int(items) / 8))
    }
    // Outputs of a few rows are made 24 at a time, three by three: three blocks of 16 leave none over. The shortest parts have as many.
    let step = floats > 0 ? 3 : 1
    launch(gd_cpu_linears_run, &all, cut(items, parts: parts, step: step, least: op.rows > 1 ? 3 : .max))
  }
}

extension gd_cpu_matrix {
  init(_ matrix: Matrix) {
    self.init(
      format: matrix.format.rawValue, dtype: matrix.scales?.dtype.rawValue ?? 0, columns: Int64(matrix.columns),
      values: matrix.weight.pointer, scales: matrix.scales?.pointer, biases: matrix.biases?.pointer)
  }
}
