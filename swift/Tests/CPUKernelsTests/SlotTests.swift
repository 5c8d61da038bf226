import CPUKernels
import GatedDeltaTypes
import Testing

@testable import CPUBackend

@Suite struct SlotTests {
  @Test(arguments: instructionSets) func copiesComeFromOneMoment(_ isa: String) throws {
    for elements in [3, 70_000] {
      for (read, write) in [([1, 0], [0, 1]), ([0, 1, 2], [1, 2, 0]), ([2, 2, 2], [0, 1, 2]), ([-1, 0], [0, 3]), ([], []), ([1], [-1])] {
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

  /// Further stores of the state along the way: what shorter calls end with.
  @Test(arguments: instructionSets) func statesAreStoredAlongTheWay(_ isa: String) throws {
    let table = try kernels(isa)
    let scratch = try PageRange(byteCount: gd_cpu_scratch_bytes(), alignment: 4096)
    for (length, stateType, keep) in [(70, DType.f32, true), (70, .bf16, true), (33, .f16, true), (5, .f32, false), (1, .bf16, true)] {
      var random = Random(seed: UInt64(length))
      let one = try DeltaCase(.inPlace([length], stateType: stateType, outType: .f32), &random)
      let op = one.op
      let elements = op.valueHeads * op.valueDim * op.keyDim
      let positions = [1, 3, 32, 33, 64, length].filter { $0 <= length }.reduce(into: [Int]()) { if $0.last != $1 { $0.append($1) } }
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
          first: 0, count: Int64(length), read: initial.memory.pointer, write: keep ? final.memory.pointer : nil,
          stores: list.baseAddress, store_count: Int64(list.count))
        withUnsafePointer(to: &sequence) { sequence in
          var params = gd_cpu_gated_delta(
            heads: gd_cpu_heads(op), gates: gd_cpu_gates(op), query: gd_cpu_tensor(op.query), key: gd_cpu_tensor(op.key),
            value: gd_cpu_tensor(op.value), out: gd_cpu_tensor(out.view), state_dtype: stateType.rawValue,
            rows_per_item: 16, sequences: sequence, sequence_count: 1)
          table.gated_delta(&params, 0, gd_cpu_gated_delta_items(&params), scratch.start)
        }
      }
      let device = try device(isa)
      for (position, stored) in zip(positions, stores) {
        // The same tokens from the same state into an f32 pool.
        var shorter = one.op
        let pool = try TestTensor(.f32, tokens: 1, heads: op.valueHeads, dim: op.valueDim * op.keyDim)
        for i in 0..<elements { pool[raw: i] = initial[raw: i] }
        shorter.state = pool.view
        shorter.tokens = position
        shorter.out = try out.copy().view
        try device.run([.gatedDelta(shorter, Sequences(lengths: [position], read: [0], write: [0]))])
        #expect(pool.bytes == stored.bytes, "after \(position) of \(length)")
        if position == length {
          #expect((0..<elements).map { Rounding.round(pool[raw: $0], .f16) } == (0..<elements).map { narrow[raw: $0] })
          let kept = keep ? (0..<elements).map { Rounding.round(pool[raw: $0], stateType) } : (0..<elements).map { initial[raw: $0] }
          #expect((0..<elements).map { final[raw: $0] } == kept)
        }
      }
      try device.run([.gatedDelta(op, Sequences(lengths: [length], read: [0], write: [0]))])
      #expect((0..<length).allSatisfy { t in
        (0..<op.valueHeads).allSatisfy { h in (0..<op.valueDim).allSatisfy { out[t, h, $0] == one.out[t, h, $0] } }
      })
    }
  }
}
