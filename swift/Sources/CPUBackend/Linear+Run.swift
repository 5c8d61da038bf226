import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: Linear) throws(Failure) {
    var params = gd_cpu_linear(
      rows: Int64(op.rows), out_features: Int64(op.outFeatures), x: gd_cpu_tensor(op.x),
      residual: gd_cpu_tensor(op.residual), out: gd_cpu_tensor(op.out),
      weight: gd_cpu_matrix(op.weight, op.quantisation, columns: op.inFeatures))
    let items = gd_cpu_linear_items(&params)
    let products = Double(op.rows) * Double(op.inFeatures) * Double(op.outFeatures)
    launch(kernels.linear, &params, cut(items, parts: smallParts(nanoseconds: products * 0.05)))
  }
}

extension gd_cpu_matrix {
  init(_ values: TensorView, _ quantisation: Quantisation?, columns: Int) {
    self.init(
      values: values.pointer, row_bytes: Int64(values.tokenStride &* values.dtype.size), columns: Int64(columns),
      dtype: (quantisation?.scales.dtype ?? values.dtype).rawValue, bits: UInt32(quantisation?.bits ?? 0),
      group: Int64(quantisation?.group ?? 0), scales: quantisation?.scales.pointer, biases: quantisation?.biases.pointer)
  }
}
