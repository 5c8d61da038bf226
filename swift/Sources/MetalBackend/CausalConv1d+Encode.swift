import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: CausalConv1d, _ sequences: Sequences) throws(Failure) {
    guard sequences.count > 0, op.channels > 0 else { return }
    let tokens = Int(sequences.starts.last ?? 0)
    let table = try slots(sequences)
    let slotElements = op.channels * (op.width - 1)
    let staged = try stage(op.state, slotElements: slotElements, slots: op.slots, sequences)

    var kernel = Kernel(family: .conv, activation: op.x.dtype)
    kernel.constants.set(.convWidth, UInt32(element: op.width))
    kernel.constants.set(.convBias, op.bias != nil)
    kernel.constants.set(.convSilu, op.activation == .silu)
    kernel.constants.set(.convStateF32, op.state?.dtype == .f32)
    kernel.constants.set(.convWeightDType, op.weight.dtype)
    kernel.constants.set(.convBiasDType, op.bias?.dtype ?? .f32)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    kernel.constants.set(.hasStores, false)
    try dispatch(
      kernel,
      [
        .reads(op.x.region(tokens: tokens, width: op.channels)),
        .reads(op.weight.region(elements: op.channels * op.width)),
        op.bias.map { .reads($0.region(elements: op.channels)) } ?? .absent,
        op.state.map { .writes($0.region(elements: op.slots * slotElements)) } ?? .absent, staged,
        .writes(op.out.region(tokens: tokens, width: op.channels)),
        .reads(table.starts), .reads(table.readSlots), .reads(table.writeSlots), .absent, .absent, .absent,
      ],
      GDMConv(
        channels: UInt32(element: op.channels), xTokenStride: UInt32(element: op.x.tokenStride),
        outTokenStride: UInt32(element: op.out.tokenStride)),
      groups: (
        ceilDiv(op.channels, GDM_CONV_THREADS), max(1, ceilDiv(sequences.longest, GDM_CONV_TILE)), sequences.count
      ),
      threads: GDM_CONV_THREADS)
  }
}
