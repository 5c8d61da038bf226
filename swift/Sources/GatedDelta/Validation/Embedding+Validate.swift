import CGatedDelta
import GatedDeltaTypes

extension gd_embedding: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    let dims = try validator.dims(self.out, "out", "[rows, dim]", rank: 2)
    let (rows, dim) = (dims[0], dims[1])
    let vocabulary = try validator.dims(self.weight, "weight", "[vocabulary, dim]", rank: 2)[0]
    let matrix = try validator.matrix(
      MatrixArguments(
        format: weight_format, weight: self.weight, scales: scales, biases: biases, layout: "[vocabulary, dim]",
        wordLayout: "[vocabulary, dim * bits / 32]", byteLayout: "[vocabulary, bytes of dim]", groupLayout: "[vocabulary, dim / group]", columnsName: "dim"),
      rows: vocabulary, columns: dim)
    let out = try validator.output(self.out, "out", dims, "[rows, dim]", .floats)
    let fromDevice =
      device_ids.isAbsent ? nil : try validator.input(device_ids, "deviceIds", Dims(rows), "[rows]", .id32, .block)
    guard fromDevice == nil || ids.isAbsent else {
      throw Failure(.invalidArgument, argument: "deviceIds", expected: "ids or deviceIds", received: "both")
    }
    try validator.checkOverlaps()
    guard Int(rows) <= SequenceRecipe.limit else {
      throw Failure(.range, argument: fromDevice == nil ? "ids" : "deviceIds", expected: "at most \(SequenceRecipe.limit) ids", received: "\(rows)")
    }
    if let fromDevice {
      let op = Embedding(rows: Int(rows), matrix: matrix, out: out, deviceIds: fromDevice)
      let none = Sequences(count: 0, starts: [], readSlots: [], writeSlots: [], stagedReads: [])
      // Ids are checked even if there is nothing to write.
      return try validator.finish(.embedding(op, none), isEmpty: rows == 0)
    }
    let recipe = SequenceRecipe(
      count: Int(rows), rows: .gathered, slots: Int(vocabulary), hasPool: false,
      readSlots: try validator.requiredIndex(ids, "ids", count: Int(rows), "ids, one a row of out"), readName: "ids")
    let batch = try validator.resolve(recipe)
    let op = Op.embedding(
      Embedding(rows: Int(rows), matrix: matrix, out: out), batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: rows == 0 || dim == 0)
  }
}
