import GatedDeltaTypes
import Metal
import ShaderParams

/// How large a trial of two forms is.
struct TrialSize: Sendable {
  var inputs = 1024
  /// Repetitions within a command buffer, and command buffers of each form.
  var repeats = 4
  var rounds = 3
}

/// Measures both forms of a choice: an op of the backend, encoded with each of them, on separate memory and a separate queue.
/// The contents are zeros: no time depends on them.
struct FormTrial {
  let device: MetalBackend
  let size: TrialSize

  /// Nil if the GPU reports no times, or one of the two cannot run.
  func measure(_ choice: FormChoice) throws(Failure) -> Forms.Measured? {
    let op = try op(for: choice)
    guard let queue = device.makeQueue() else { return nil }
    var least: [Bool: Double] = [:]
    for _ in 0..<size.rounds {
      for many in [true, false] {
        guard let seconds = try time(op, (choice.form, many), queue) else { return nil }
        least[many] = min(least[many] ?? seconds, seconds)
      }
    }
    guard let many = least[true], let few = least[false] else { return nil }
    return Forms.Measured(many: many, few: few)
  }

  private func time(_ op: Op, _ tried: (Form, Bool), _ queue: any MTLCommandQueue) throws(Failure) -> Double? {
    guard let commandBuffer = queue.makeCommandBuffer(),
      let encoder = commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent)
    else { return nil }
    var pass = Pass(device: device, encoder: encoder, arena: Arena(pool: device.arenas))
    defer { device.arenas.giveBack(pass.arena.chunks) }
    pass.tried = (form: tried.0, many: tried.1)
    do throws(Failure) {
      // One after the other: they write the same tensor.
      for _ in 0..<size.repeats { try pass.encode(op) }
    } catch {
      encoder.endEncoding()
      throw error
    }
    encoder.endEncoding()
    commandBuffer.commit()
    commandBuffer.waitUntilCompleted()
    let seconds = commandBuffer.gpuEndTime - commandBuffer.gpuStartTime
    return commandBuffer.status == .completed && seconds > 0 ? seconds : nil
  }

  /// Work that gives the host the choice and fills the GPU.
  private func op(for choice: FormChoice) throws(Failure) -> Op {
    let few = device.chip.fewThreadgroups
    switch choice.form {
    case .blocks:
      // A few blocks of rows, by as many blocks of outputs as make blocks worthwhile.
      let rows = 2 * GDM_BLOCK_ROWS
      return try linear(choice, rows: rows, outputs: GDM_BLOCK_OUTPUTS * few)
    case .eightRows, .fourRows:
      let outputs = GDM_PROJECT_THREADS / GDM_SIMD_LANES * GDM_PROJECT_TILE
      return try linear(choice, rows: choice.form == .eightRows ? GDM_PROJECT_ROWS : 4, outputs: 4 * outputs * few)
    case .manyTurns:
      // As many threadgroups as take this spread, and rows as long as two of its reads.
      let outputs = GDM_PROJECT_THREADS / GDM_SIMD_LANES * GDM_PROJECT_OUTPUTS_1
      return try linear(
        choice, rows: 1, outputs: 2 * outputs * few, inputs: max(size.inputs, 2 * GDM_PROJECT_MOST_TURNS * GDM_PROJECT_TURN))
    case .twoOutputs:
      let outputs = GDM_PROJECT_THREADS / GDM_PACKED_LANES
      return try linear(choice, rows: 1, outputs: 4 * outputs * few)
    case .matrixHalves:
      return try linear(choice, rows: GDM_BLOCK_ROWS, outputs: GDM_BLOCK_ROWS * few, products: .matrix)
    case .decodeRows: return try decode(choice, sequences: max(few / 4, 1))
    }
  }

  private func linear(_ choice: FormChoice, rows: Int, outputs: Int, inputs: Int? = nil, products: Products = .rows) throws(Failure) -> Op {
    let format = choice.format ?? .f32
    let layout = format.layout
    let inputs = ceilDiv(inputs ?? size.inputs, 256) * 256
    func companion(_ kind: WeightLayout.Companion) throws(Failure) -> TensorView? {
      let width = inputs / layout.elements
      switch kind {
      case .none: return nil
      case .floats: return try tensor(choice.activation, [outputs, width])
      case .only(let dtype): return try tensor(dtype, [outputs, width])
      }
    }
    let matrix = Matrix(
      format: format, rows: outputs, columns: inputs,
      weight: try tensor(layout.dtype, [outputs, layout.stored(columns: inputs)]), scales: try companion(layout.scales),
      biases: try companion(layout.biases))
    return .linear(
      Linear(
        rows: rows, options: .init(products: products), x: try tensor(choice.activation, [rows, inputs]), matrix: matrix,
        out: try tensor(choice.activation, [rows, outputs])))
  }

  private func decode(_ choice: FormChoice, sequences n: Int) throws(Failure) -> Op {
    let (activation, heads, dim) = (choice.activation, 4, 128)
    let keyDim = choice.keyClass == .k64 ? 64 : choice.keyClass == .kany ? 96 : 128
    func rows(_ width: Int) throws(Failure) -> TensorView { try tensor(activation, [n, heads, width]) }
    func gates() throws(Failure) -> TensorView { try tensor(.f32, [n, heads, 1]) }
    let slots = (0..<n).map { Int32($0) }
    return .gatedDelta(
      GatedDelta(
        tokens: n, keyHeads: heads, valueHeads: heads, keyDim: keyDim, valueDim: dim, slots: n,
        options: .init(gateForm: .decay, algorithm: .recurrent, scale: 1, gateBound: 0), query: try rows(keyDim),
        key: try rows(keyDim), value: try rows(dim), gate: try gates(), beta: try gates(), raw: nil,
        state: try tensor(choice.storage ?? .f32, [n, heads * dim * keyDim]), out: try rows(dim)),
      Sequences(count: n, starts: slots + [Int32(n)], readSlots: slots, writeSlots: slots, stagedReads: []))
  }

  /// Zeros, contiguous: rows, heads if there are three numbers, elements.
  private func tensor(_ dtype: DType, _ shape: [Int]) throws(Failure) -> TensorView {
    let width = shape.last ?? 1
    let memory = try device.allocate(byteCount: max(16, shape.reduce(dtype.size, *)))
    return TensorView(
      memory: memory, offset: 0, dtype: dtype, tokenStride: shape.dropFirst().reduce(1, *), headStride: width)
  }
}

extension MetalBackend {
  /// Measures those choices of these ops that have not been measured yet. A trial that fails decides nothing: the cause shows
  /// when the op itself runs.
  func measureForms(of ops: [EncodedOp]) {
    guard let trials else { return }
    var pass = Pass(device: self, encoder: nil, arena: Arena(pool: arenas))
    defer { arenas.giveBack(pass.arena.chunks) }
    pass.choices = []
    for op in ops { try? pass.encode(op.op) }
    // Small tiles first: the others are compared with them.
    let choices = (pass.choices ?? []).sorted { $0.form.rawValue > $1.form.rawValue }
    for choice in choices where forms[choice] == nil {
      if let measured = try? FormTrial(device: self, size: trials).measure(choice) { forms.add(choice, measured) }
    }
  }
}
