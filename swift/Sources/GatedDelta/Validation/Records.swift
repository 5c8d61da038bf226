import CGatedDelta
import GatedDeltaTypes

/// The records that a gated delta op keeps for a commit, unchecked.
struct RecordArguments {
  var key, delta, decay: gd_tensor

  var areAbsent: Bool { key.isAbsent && delta.isAbsent && decay.isAbsent }
}

/// The sizes of the records.
struct RecordSizes {
  var tokens, keyHeads, valueHeads, keyDim, valueDim: UInt32
  var gateDims: GateDims
}

extension Validator {
  /// - Parameter isOutput: true if they are written, false if a commit reads them.
  mutating func records(
    _ given: RecordArguments, _ sizes: RecordSizes, isOutput: Bool
  ) throws(Failure) -> Records {
    let (tokens, heads) = (sizes.tokens, sizes.valueHeads)
    let key = try record(
      given.key, "records.key", Dims(tokens, sizes.keyHeads, sizes.keyDim), "[tokens, keyHeads, keyDim]", isOutput)
    let delta = try record(
      given.delta, "records.delta", Dims(tokens, heads, sizes.valueDim), "[tokens, valueHeads, valueDim]", isOutput)
    let decay =
      sizes.gateDims == .perKey
      ? try record(
        given.decay, "records.decay", Dims(tokens, heads, sizes.keyDim), "[tokens, valueHeads, keyDim]", isOutput)
      : try record(
        given.decay, "records.decay", Dims(tokens, heads), "[tokens, valueHeads]", isOutput, as: Shape(tokens, heads, 1))
    return Records(key: key, delta: delta, decay: decay)
  }

  private mutating func record(
    _ tensor: gd_tensor, _ name: StaticString, _ dims: Dims, _ layout: StaticString, _ isOutput: Bool,
    as shape: Shape? = nil
  ) throws(Failure) -> TensorView {
    isOutput
      ? try output(tensor, name, dims, layout, .f32, .vectorBlock, as: shape)
      : try input(tensor, name, dims, layout, .f32, .vectorBlock, as: shape)
  }
}
