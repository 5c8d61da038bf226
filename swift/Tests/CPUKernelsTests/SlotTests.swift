import CPUKernels
import GatedDeltaTypes
import Testing

@testable import CPUBackend
@testable import KernelReferences

@Suite struct SlotTests {
  @Test(arguments: instructionSets) func copiesComeFromOneMoment(_ isa: String) throws {
    for elements in [3, 70_000] {
      let cases: [([Int], [Int])] = [
        ([1, 0], [0, 1]), ([0, 1, 2], [1, 2, 0]), ([2, 2, 2], [0, 1, 2]), ([-1, 0], [0, 3]), ([], []), ([1], [-1]),
      ]
      for (read, write) in cases {
        let pool = try TestTensor(.bf16, tokens: 4, dim: elements)
        var random = Random(seed: 1)
        pool.fill(-1...1, &random)
        let before = try pool.copy()
        let op = CopySlots(slots: 4, slotElements: elements, pool: pool.view)
        let sequences = Sequences(lengths: read.map { _ in 0 }, read: read, write: write)
        try device(isa, threads: 3).run([.copySlots(op, sequences)])
        for slot in 0..<4 {
          let source = zip(read, write).first { $0.1 == slot }?.0 ?? slot
          let expected = source < 0 ? [UInt8](repeating: 0, count: elements * 2) : before.rowBytes(source..<source + 1)
          #expect(pool.rowBytes(slot..<slot + 1) == expected)
        }
      }
    }
  }

  /// Additional stores of the state: the final states of shorter calls, and for 0 the state as it was read.
  @Test(arguments: instructionSets) func statesAreStoredAlongTheWay(_ isa: String) throws {
    let cases: [(length: Int, stateType: DType, reads: Bool, writes: Bool)] = [
      (70, .f32, true, true), (70, .bf16, true, true), (33, .f16, false, true), (5, .f32, true, false),
      (1, .bf16, true, true), (0, .f16, true, true), (0, .f32, false, true),
    ]
    for one in cases { try storeAlongTheWay(isa, one.length, one.stateType, reads: one.reads, writes: one.writes) }
  }

  private func storeAlongTheWay(_ isa: String, _ length: Int, _ stateType: DType, reads: Bool, writes: Bool) throws {
    let table = try kernels(isa)
    let scratch = try PageRange(byteCount: gd_cpu_scratch_bytes(), alignment: 4096)
    var random = Random(seed: UInt64(length))
    let one = try DeltaCase(.inPlace([length], stateType: stateType, outType: .f32), &random)
    if !reads { one.state.fill(with: 0) }
    let op = one.op
    let elements = op.valueHeads * op.valueDim * op.keyDim
    let positions = Set([0, 1, 3, 32, 33, 64, length]).filter { $0 <= length }.sorted()
    let stores = try positions.map { _ in try TestTensor(.f32, tokens: 1, dim: elements) }
    let narrow = try TestTensor(.f16, tokens: 1, dim: elements)
    var list = zip(positions, stores).map {
      gd_cpu_state_store(after: Int64($0), state: $1.memory.pointer, dtype: DType.f32.rawValue)
    }
    list.append(gd_cpu_state_store(after: Int64(length), state: narrow.memory.pointer, dtype: DType.f16.rawValue))
    let initial = try one.state.copy()
    let final = try one.state.copy()
    let out = try TestTensor(.f32, tokens: op.tokens, heads: op.valueHeads, dim: op.valueDim)
    list.withUnsafeBufferPointer { list in
      var sequence = gd_cpu_sequence(
        first: 0, count: Int64(length), read: reads ? UnsafeRawPointer(initial.memory.pointer) : nil,
        write: writes ? final.memory.pointer : nil, stores: list.baseAddress, store_count: Int64(list.count))
      withUnsafePointer(to: &sequence) { sequence in
        var params = gd_cpu_gated_delta(
          heads: gd_cpu_heads(op), gates: gd_cpu_gates(op), query: gd_cpu_tensor(op.query),
          key: gd_cpu_tensor(op.key), value: gd_cpu_tensor(op.value), out: gd_cpu_tensor(out.view),
          records: gd_cpu_records(), state_dtype: stateType.rawValue, rows_per_item: 16, sequences: sequence, sequence_count: 1)
        var stop: UInt32 = 0
        table.gated_delta(&params, 0, gd_cpu_gated_delta_items(&params), scratch.start, &stop)
      }
    }
    let device = try device(isa)
    for (position, stored) in zip(positions, stores) {
      // The same tokens from the same state into an f32 pool.
      let pool = try TestTensor(.f32, tokens: 1, heads: op.valueHeads, dim: op.valueDim * op.keyDim)
      for i in 0..<elements { pool[raw: i] = initial[raw: i] }
      let shorter = one.op.with(tokens: position, state: pool.view, out: try out.copy().view)
      try device.run([.gatedDelta(shorter, Sequences(lengths: [position], read: [0], write: [0]))])
      #expect(pool.bytes == stored.bytes, "after \(position) of \(length)")
      guard position == length else { continue }
      let exact = (0..<elements).map { pool[raw: $0] }
      #expect(exact.map { Rounding.round($0, .f16) } == (0..<elements).map { narrow[raw: $0] })
      let kept = writes ? exact.map { Rounding.round($0, stateType) } : (0..<elements).map { initial[raw: $0] }
      #expect((0..<elements).map { final[raw: $0] } == kept)
    }
    try device.run([.gatedDelta(op, Sequences(lengths: [length], read: [0], write: [0]))])
    for token in 0..<length {
      for head in 0..<op.valueHeads {
        let pair = [out, one.out].map { tensor in (0..<op.valueDim).map { tensor[token, head, $0] } }
        #expect(pair[0] == pair[1])
      }
    }
  }
}
