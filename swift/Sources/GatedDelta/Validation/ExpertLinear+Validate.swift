import CGatedDelta
import GatedDeltaTypes

extension gd_expert_linear: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let options = try ExpertLinear.Options(self)
    let idDims = try validator.dims(self.ids, "ids", "[tokens, k]", rank: 2)
    let (tokens, chosen) = (idDims[0], idDims[1])
    let weightDims = try validator.dims(self.weight, "weight", "[experts, outFeatures, inFeatures]", rank: 3)
    let (experts, outFeatures) = (weightDims[0], weightDims[1])
    try Check.experts(experts, "weight", "[experts, outFeatures, inFeatures]", weightDims)
    let given = try validator.dims(self.x, "x")
    guard given.rank == 2 || given.rank == 3 else {
      throw Failure(
        .shape, argument: "x", expected: "[tokens, inFeatures] or [tokens, k, inFeatures]", received: given.text)
    }
    let inFeatures = given[given.rank &- 1]
    let sharesRows = given.rank == 2
    let x = try validator.input(
      self.x, "x", sharesRows ? Dims(tokens, inFeatures) : Dims(tokens, chosen, inFeatures),
      sharesRows ? "[tokens, inFeatures]" : "[tokens, k, inFeatures]", .floats)
    let matrices = try validator.matrix(
      MatrixArguments(
        format: weight_format, weight: self.weight, scales: scales, biases: biases,
        layout: "[experts, outFeatures, inFeatures]", wordLayout: "[experts, outFeatures, inFeatures * bits / 32]",
        byteLayout: "[experts, outFeatures, bytes of inFeatures]",
        groupLayout: "[experts, outFeatures, inFeatures / group]", columnsName: "inFeatures",
        experts: experts),
      rows: outFeatures, columns: inFeatures)
    let ids = try validator.input(self.ids, "ids", idDims, "[tokens, k]", .id32, .block)
    let out = try validator.output(
      self.out, "out", Dims(tokens, chosen, outFeatures), "[tokens, k, outFeatures]", .orF32(x.dtype))
    try validator.checkOverlaps()
    let op = ExpertLinear(
      tokens: Int(tokens), chosen: Int(chosen), experts: Int(experts), options: options, x: x, sharesRows: sharesRows,
      matrices: matrices, ids: ids, out: out)
    // Ids are checked even if there is nothing to write.
    try validator.finish(.expertLinear(op), isEmpty: tokens == 0 || chosen == 0)
  }
}
