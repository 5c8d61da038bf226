import GatedDeltaTypes

extension Linear {
  /// One by a weight of floats.
  convenience init(
    rows: Int, inFeatures: Int, outFeatures: Int, x: TensorView, weight: TensorView, residual: TensorView? = nil,
    out: TensorView, replacesResidual: Bool = false
  ) {
    let format = WeightFormat.allCases.first { $0.publicName == weight.dtype.name } ?? .f32
    self.init(
      rows: rows, x: x, matrix: Matrix(format: format, rows: outFeatures, columns: inFeatures, weight: weight),
      residual: residual, out: out, replacesResidual: replacesResidual)
  }
}
