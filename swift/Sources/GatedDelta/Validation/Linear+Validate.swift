import CGatedDelta
import GatedDeltaTypes

extension gd_linear: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let options = try Linear.Options(self)
    let dims = try validator.dims(self.x, "x", "[rows, inFeatures]", rank: 2)
    let (rows, inFeatures) = (dims[0], dims[1])
    let outFeatures = try validator.dims(self.weight, "weight", "[outFeatures, inFeatures]", rank: 2)[0]
    let x = try validator.input(self.x, "x", dims, "[rows, inFeatures]", .floats)
    let matrix = try validator.matrix(
      MatrixArguments(
        format: weight_format, weight: self.weight, scales: scales, biases: biases, layout: "[outFeatures, inFeatures]",
        wordLayout: "[outFeatures, inFeatures * bits / 32]", byteLayout: "[outFeatures, bytes of inFeatures]",
        groupLayout: "[outFeatures, inFeatures / group]",
        columnsName: "inFeatures"),
      rows: outFeatures, columns: inFeatures)
    let outDims = Dims(rows, outFeatures)
    var residual: TensorView?
    var replacesResidual = false
    if !self.residual.isAbsent {
      let view = try validator.input(self.residual, "residual", outDims, "[rows, outFeatures]", .orF32(x.dtype))
      replacesResidual = validator.forget(view, where: self.residual.isSame(self.out))
      residual = view
    }
    let out = try validator.output(self.out, "out", outDims, "[rows, outFeatures]", .orF32(x.dtype))
    try validator.checkOverlaps()

    let op = Linear(
      rows: Int(rows), options: options, x: x, matrix: matrix, residual: residual, out: out,
      replacesResidual: replacesResidual)
    // Without input features the sums are empty, and the output is zeros or the residual: it must still be written.
    try validator.finish(.linear(op), isEmpty: rows == 0 || outFeatures == 0)
  }
}
