import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: GatedDeltaStep, _ sequences: Sequences) throws(Failure) {
    guard sequences.count > 0 else { return }
    let n = sequences.count
    let dims = op.options.gateDims == .perKey ? op.keyDim : 1
    let channels = 2 * op.keyHeads * op.keyDim + op.valueHeads * op.valueDim
    let convElements = channels * (op.width - 1)
    let stateElements = op.valueHeads * op.valueDim * op.keyDim
    let table = try slots(sequences, small: true)
    // Threadgroups that share a key head's conv columns count their arrivals; each counter begins at 0.
    var arrivals = Argument.absent
    if op.valueHeads > op.keyHeads {
      let counters = try arena.region(byteCount: n * op.keyHeads * 4)
      counters.contents.initializeMemory(as: UInt8.self, repeating: 0, count: n * op.keyHeads * 4)
      arrivals = .writes(counters)
    }
    let convStaged = try stage(op.convState, slotElements: convElements, slots: op.slots, sequences)
    let staged = try stage(op.state, slotElements: stateElements, slots: op.slots, sequences)

    var kernel = Kernel(
      family: .step, activation: op.x.dtype, storage: op.state?.dtype ?? .f32, keyClass: Kernel.KeyClass(op.keyDim))
    kernel.constants.setStep(op, small: table.isSmall)
    kernel.constants.set(.tileRows, UInt32(element: GDM_STEP_ROWS))
    let few = op.valueHeads * n <= fewThreadgroups
    if few {
      var ahead = kernel
      ahead.constants.set(.tileRows, UInt32(element: 2 * GDM_STEP_ROWS))
      if try device.pipelines.pipeline(ahead).maxThreads >= GDM_STEP_THREADS { kernel = ahead }
    }
    // One by one: an array literal would be allocated.
    var list = takeArguments()
    defer { keepArguments(&list) }
    list.append(try .reads(op.x, tokens: n, width: channels))
    list.append(try .reads(op.convWeight, elements: channels * op.width))
    list.append(try .reads(op.convBias, elements: channels))
    list.append(try .writes(op.convState, elements: op.slots * convElements))
    list.append(convStaged)
    list.append(try .reads(op.gate, tokens: n, heads: op.valueHeads, width: dims))
    list.append(try .reads(op.beta, tokens: n, heads: op.valueHeads, width: 1))
    list.append(try .reads(op.raw?.aLog, elements: op.valueHeads))
    list.append(try .reads(op.raw?.dtBias, elements: op.valueHeads * dims))
    list.append(try .writes(op.state, elements: op.slots * stateElements))
    list.append(staged)
    list.append(try .reads(op.z, tokens: n, heads: op.valueHeads, width: op.valueDim))
    list.append(try .reads(op.normWeight, elements: op.valueDim))
    list.append(try .writes(op.out, tokens: n, heads: op.valueHeads, width: op.valueDim))
    list.append(table.readSlots)
    list.append(table.writeSlots)
    list.append(arrivals)
    try dispatch(
      kernel, list,
      GDMStep(
        keyHeads: UInt32(element: op.keyHeads), valueHeads: UInt32(element: op.valueHeads),
        keyDim: UInt32(element: op.keyDim), valueDim: UInt32(element: op.valueDim),
        xTokenStride: UInt32(element: op.x.tokenStride), gateTokenStride: UInt32(element: op.gate.tokenStride),
        gateHeadStride: UInt32(element: op.gate.headStride), betaTokenStride: UInt32(element: op.beta.tokenStride),
        betaHeadStride: UInt32(element: op.beta.headStride), zTokenStride: UInt32(element: op.z.tokenStride),
        zHeadStride: UInt32(element: op.z.headStride), outTokenStride: UInt32(element: op.out.tokenStride),
        outHeadStride: UInt32(element: op.out.headStride), scale: op.options.scale, epsilon: op.options.qkNormEps,
        bound: op.options.gateBound, normEpsilon: op.options.normEps),
      table.batch, groups: (op.valueHeads, n, 1), threads: .upTo(Self.stepThreads(threadgroups: op.valueHeads * n)))
  }
}

extension Pass {
  /// If few threadgroups would leave a large GPU idle, each takes its rows in fewer rounds.
  static func stepThreads(threadgroups: Int) -> Int { threadgroups <= 1024 ? GDM_STEP_THREADS : 256 }
}

extension Constants {
  mutating func setStep(_ op: GatedDeltaStep, small: Bool) {
    set(.tiledHeads, op.options.headMap == .tiled)
    set(.gatePerKey, op.options.gateDims == .perKey)
    set(.qkNorm, op.options.qkNorm.rawValue)
    set(.outF32, op.out.dtype == .f32)
    set(.smallBatch, small)
    setGates(op.options.gateForm, op.options.betaForm, op.gate, op.beta, op.raw)
    set(.convWidth, UInt32(element: op.width))
    set(.convBias, op.convBias != nil)
    set(.convSilu, op.options.convActivation == .silu)
    set(.convStateF32, op.convState?.dtype == .f32)
    set(.convWeightDType, op.convWeight.dtype)
    set(.convBiasDType, op.convBias?.dtype ?? .f32)
    set(.normSigmoid, op.options.normActivation == .sigmoid)
    set(.normGateFirst, op.options.normOrder == .gateThenNorm)
    set(.normWeightDType, op.normWeight.dtype)
  }
}
