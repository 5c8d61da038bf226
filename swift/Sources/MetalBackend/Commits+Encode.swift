import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: CommitGatedDelta, _ sequences: Sequences) throws(Failure) {
    guard sequences.count > 0, op.slots > 0 else { return }
    let tokens = Int(sequences.starts.last ?? 0)
    let dims = op.gateDims == .perKey ? op.keyDim : 1
    let slotElements = op.valueHeads * op.valueDim * op.keyDim
    let table = try slots(sequences)
    let staged = try stage(op.state, slotElements: slotElements, slots: op.slots, sequences)
    var kernel = Kernel(family: .commit, storage: op.state.dtype, keyClass: Kernel.KeyClass(op.keyDim))
    let shape = DecodeShape(op.state.dtype, Kernel.KeyClass(op.keyDim))
    kernel.constants.set(.tiledHeads, op.options.headMap == .tiled)
    kernel.constants.set(.gatePerKey, op.gateDims == .perKey)
    try dispatch(
      kernel,
      [
        .reads(op.records.key, elements: tokens * op.keyHeads * op.keyDim),
        .reads(op.records.delta, elements: tokens * op.valueHeads * op.valueDim),
        .reads(op.records.decay, elements: tokens * op.valueHeads * dims),
        .writes(op.state, elements: op.slots * slotElements), staged, table.starts,
        .reads(arena.region(copying: sequences.counts ?? [])), table.readSlots, table.writeSlots,
      ],
      GDMCommit(
        keyHeads: UInt32(element: op.keyHeads), valueHeads: UInt32(element: op.valueHeads),
        keyDim: UInt32(element: op.keyDim), valueDim: UInt32(element: op.valueDim)),
      groups: (ceilDiv(op.valueDim, shape.rows), op.valueHeads, sequences.count), threads: .exactly(shape.threads))
  }

  mutating func encode(_ op: CommitCausalConv1d, _ sequences: Sequences) throws(Failure) {
    guard sequences.count > 0, op.slots > 0, op.channels > 0 else { return }
    let slotElements = op.channels * (op.width - 1)
    let table = try slots(sequences)
    let staged = try stage(op.state, slotElements: slotElements, slots: op.slots, sequences)
    var kernel = Kernel(family: .convShift, activation: op.x.dtype)
    kernel.constants.set(.convWidth, UInt32(element: op.width))
    kernel.constants.set(.convStateF32, op.state.dtype == .f32)
    try dispatch(
      kernel,
      [
        .reads(op.x, tokens: Int(sequences.starts.last ?? 0), width: op.channels),
        .writes(op.state, elements: op.slots * slotElements), staged, table.starts,
        .reads(arena.region(copying: sequences.counts ?? [])), table.readSlots, table.writeSlots,
      ],
      GDMConv(
        channels: UInt32(element: op.channels), sequences: UInt32(element: sequences.count),
        xTokenStride: UInt32(element: op.x.tokenStride), outTokenStride: 0),
      groups: (ceilDiv(op.channels, GDM_CONV_THREADS), sequences.count, 1), threads: .exactly(GDM_CONV_THREADS))
  }
}
