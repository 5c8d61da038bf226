import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: CausalConv1d, _ sequences: Sequences) throws(Failure) {
    guard sequences.count > 0, op.channels > 0 else { return }
    let tokens = Int(sequences.starts.last ?? 0)
    let table = try slots(sequences, fromSource: op.states.source != nil)
    let slotElements = op.channels * (op.width - 1)
    let states = try states(op.states, pool: op.state, slotElements: slotElements, slots: op.slots, sequences)

    var kernel = Kernel(family: .conv, activation: op.x.dtype)
    kernel.constants.set(.convWidth, UInt32(element: op.width))
    kernel.constants.set(.convBias, op.bias != nil)
    kernel.constants.set(.convSilu, op.options.activation == .silu)
    kernel.constants.set(.convStateF32, op.stateDType == .f32)
    kernel.constants.set(.convWeightDType, op.weight.dtype)
    kernel.constants.set(.convBiasDType, op.bias?.dtype ?? .f32)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    kernel.constants.set(.hasStores, sequences.stores != nil)
    let isUpdate =
      op.width == 4 && op.channels % 4 == 0 && sequences.stores == nil && sequences.areSingleTokens
      && op.x.isAligned(to: 4, rowsOf: op.channels) && op.out.isAligned(to: 4, rowsOf: op.channels)
      && (op.weight.dtype != .f32 || op.weight.offset % 16 == 0) && (op.state?.offset ?? 0) % (4 * op.stateDType.size) == 0
      && (op.states.source?.offset ?? 0) % (4 * op.stateDType.size) == 0
    let blocks = ceilDiv(op.channels, isUpdate ? 4 * GDM_CONV_THREADS : GDM_CONV_THREADS)
    // A thread's weights serve two sequences if those fill the GPU in twos.
    let each = isUpdate && blocks * sequences.count >= 4 * fewThreadgroups ? 2 : 1
    kernel.constants.set(.convUpdate, isUpdate ? UInt32(element: each) : 0)
    var list = takeArguments()
    defer { keepArguments(&list) }
    list.append(try .reads(op.x, tokens: tokens, width: op.channels))
    list.append(try .reads(op.weight, elements: op.channels * op.width))
    list.append(try .reads(op.bias, elements: op.channels))
    list.append(try .writes(op.state, elements: op.slots * slotElements))
    list.append(states.staged)
    list.append(try .writes(op.out, tokens: tokens, width: op.channels))
    list.append(table.starts)
    list.append(table.readSlots)
    list.append(table.writeSlots)
    list.append(states.storeOffsets)
    list.append(states.stores)
    list.append(states.snapshots)
    try dispatch(
      kernel, list,
      GDMConv(
        channels: UInt32(element: op.channels), sequences: UInt32(element: sequences.count),
        xTokenStride: UInt32(element: op.x.tokenStride), outTokenStride: UInt32(element: op.out.tokenStride)),
      groups: (blocks, max(1, ceilDiv(sequences.longest, GDM_CONV_TILE)), ceilDiv(sequences.count, each)),
      threads: .exactly(GDM_CONV_THREADS), threadgroupBytes: ThreadgroupBytes.conv(isUpdate: isUpdate))
  }
}
