import CPUKernels
import GatedDeltaTypes
import Testing

@testable import CPUBackend
@testable import KernelReferences

/// States from a source, stored before the end, and committed from records: always with the bits of simpler calls.
@Suite struct StateTests {
  static let stateTypes = [DType.f32, .f16, .bf16]

  /// A ragged batch whose sequences store at every token position, to slots and to a snapshot tensor.
  func stores(_ lengths: [Int], firstSlot: Int) -> (stores: StateStores, slots: Int, entries: Int) {
    var stores = StateStores(offsets: [0], stores: [])
    var (slot, entry) = (firstSlot, 0)
    for length in lengths {
      for tokens in 0...length {
        stores.stores.append(.init(tokens: Int32(tokens), target: .slot(Int32(slot))))
        stores.stores.append(.init(tokens: Int32(tokens), target: .snapshot(Int32(entry))))
        (slot, entry) = (slot + 1, entry + 1)
      }
      stores.offsets.append(Int32(stores.stores.count))
    }
    return (stores, slot, entry)
  }

  @Test(arguments: instructionSets) func deltaStoresWhatShorterCallsEndWith(_ isa: String) throws {
    let lengths = [3, 0, 35]
    for (stateType, dims) in zip(Self.stateTypes, [(24, 40), (64, 16), (128, 8)]) {
      for (read, write) in [([0, 1, 2], [0, 1, 2]), ([2, 0, -1], [0, -1, 2])] {
        let (stores, slots, entries) = stores(lengths, firstSlot: 3)
        var shape = DeltaCase.Shape.inPlace(
          lengths, keyDim: dims.0, valueDim: dims.1, stateType: stateType, outType: .f32)
        (shape.read, shape.write, shape.slots) = (read, write, slots)
        var random = Random(seed: UInt64(dims.0))
        var one = try DeltaCase(shape, &random)
        let before = try one.state.copy()
        let snapshots = try TestTensor(
          stateType, tokens: entries, heads: one.op.valueHeads, dim: dims.0 * dims.1)
        one.op = one.op.with(states: one.op.states.with(snapshots: snapshots.view, entries: entries))
        one.sequences.stores = stores
        try device(isa, threads: 2).run([.gatedDelta(one.op, one.sequences)])

        let plain = try device(isa)
        for (sequence, length) in lengths.enumerated() {
          for tokens in 0...length {
            let pool = try before.copy()
            var shorter = one
            shorter.op = one.op.with(state: pool.view, out: try one.out.copy().view, states: StateTensors.none)
            let start = Int(one.sequences.starts[sequence])
            try plain.run([shorter.part([tokens], from: [start], read: [read[sequence]], write: [2])])
            let store = stores.of(sequence).filter { $0.tokens == tokens }
            for target in store.map(\.target) {
              let stored =
                switch target {
                case .slot(let slot): one.state.rowBytes(Int(slot)..<Int(slot) + 1)
                case .snapshot(let entry): snapshots.rowBytes(Int(entry)..<Int(entry) + 1)
                }
              #expect(stored == pool.rowBytes(2..<3), "\(stateType) sequence \(sequence) after \(tokens): \(target)")
            }
            if tokens == length, write[sequence] >= 0 {
              #expect(one.state.rowBytes(write[sequence]..<write[sequence] + 1) == pool.rowBytes(2..<3))
            }
          }
        }
      }
    }
  }

  @Test(arguments: instructionSets) func convStoresWhatShorterCallsEndWith(_ isa: String) throws {
    let lengths = [5, 0, 1]
    for (type, stateType) in [(DType.f32, DType.f32), (.bf16, .bf16), (.f16, .f32)] {
      for width in [2, 4, 9] {
        let (stores, slots, entries) = stores(lengths, firstSlot: 4)
        var random = Random(seed: UInt64(width))
        var one = try ConvCase(
          lengths: lengths, read: [0, 2, -1], write: [0, 1, 3], channels: 70, width: width, type: type, outType: .f32,
          stateType: stateType, &random)
        let state = try TestTensor(stateType, tokens: slots, heads: 70, dim: width - 1)
        state.memory.pointer.copyMemory(from: one.state.memory.pointer, byteCount: one.state.memory.byteCount)
        let before = try state.copy()
        let snapshots = try TestTensor(stateType, tokens: entries, heads: 70, dim: width - 1)
        one.op = one.op.with(
          slots: slots, state: state.view, states: one.op.states.with(snapshots: snapshots.view, entries: entries))
        one.sequences.stores = stores
        try device(isa, threads: 2).run([.causalConv1d(one.op, one.sequences)])

        for (sequence, length) in lengths.enumerated() {
          for tokens in 0...length {
            let pool = try before.copy()
            let op = one.op.with(
              x: one.op.x.after(Int(one.sequences.starts[sequence])), state: pool.view, out: try one.out.copy().view,
              states: StateTensors.none)
            let read = Int(one.sequences.readSlots[sequence])
            try device(isa).run([.causalConv1d(op, Sequences(lengths: [tokens], read: [read], write: [3]))])
            for target in stores.of(sequence).filter({ $0.tokens == tokens }).map(\.target) {
              let stored =
                switch target {
                case .slot(let slot): state.rowBytes(Int(slot)..<Int(slot) + 1)
                case .snapshot(let entry): snapshots.rowBytes(Int(entry)..<Int(entry) + 1)
                }
              #expect(stored == pool.rowBytes(3..<4), "\(type) width \(width), after \(tokens): \(target)")
            }
          }
        }
      }
    }
  }

  /// A store into the slot that its own sequence reads, and into one that another reads.
  @Test(arguments: instructionSets) func readsComeBeforeStores(_ isa: String) throws {
    for stateType in Self.stateTypes {
      var results: [[UInt8]] = []
      for apart in [false, true] {
        var shape = DeltaCase.Shape.inPlace([34, 2], stateType: stateType, outType: .f32)
        (shape.read, shape.write, shape.slots) = ([0, 1], [2, 3], 6)
        var random = Random(seed: 9)
        var one = try DeltaCase(shape, &random)
        // Sequence 0 stores to slots 0 (its own) and 1 (the other's); apart: to 4 and 5.
        one.sequences.stores = StateStores(
          offsets: [0, 2, 2],
          stores: [.init(tokens: 1, target: .slot(apart ? 4 : 0)), .init(tokens: 33, target: .slot(apart ? 5 : 1))])
        if !apart { one.sequences.stagedReads = [1] }
        try device(isa, threads: 3).run([.gatedDelta(one.op, one.sequences)])
        let stored = apart ? one.state.rowBytes(4..<6) : one.state.rowBytes(0..<2)
        results.append(one.out.bytes + one.state.rowBytes(2..<4) + stored)
      }
      #expect(results[0] == results[1], "\(stateType)")
    }
  }

  @Test(arguments: instructionSets) func aSourceIsReadInsteadOfThePool(_ isa: String) throws {
    for stateType in Self.stateTypes {
      var shape = DeltaCase.Shape.inPlace([2, 0, 3, 1], stateType: stateType, outType: .f32)
      (shape.read, shape.write, shape.slots) = ([3, 1, 3, -1], [0, 1, 3, 2], 4)
      var results: [[UInt8]] = []
      for fromSource in [false, true] {
        var random = Random(seed: 17)
        var one = try DeltaCase(shape, &random)
        if fromSource {
          let source = try one.state.copy()
          one.state.fill(with: .nan)
          one.op = one.op.with(states: one.op.states.with(source: source.view, slots: 4))
          one.sequences.stagedReads = []
          let before = source.bytes
          try device(isa, threads: 2).run([.gatedDelta(one.op, one.sequences)])
          #expect(source.bytes == before)
        } else {
          try device(isa, threads: 2).run([.gatedDelta(one.op, one.sequences)])
        }
        results.append(one.out.bytes + one.state.bytes)
      }
      #expect(results[0] == results[1], "\(stateType)")
    }
    for length in [0, 1, 2, 7] {
      var results: [[UInt8]] = []
      for fromSource in [false, true] {
        var random = Random(seed: 18)
        var one = try ConvCase(
          lengths: [length, length], read: [1, 0], write: [0, 1], channels: 37, width: 4, type: .bf16, outType: .bf16,
          stateType: .f32, &random)
        let source = try one.state.copy()
        if fromSource {
          for i in 0..<2 * 37 * 3 { one.state[raw: i] = .nan }
          one.op = one.op.with(states: one.op.states.with(source: source.view, slots: one.op.slots))
          one.sequences.stagedReads = []
        }
        try device(isa, threads: 2).run([.causalConv1d(one.op, one.sequences)])
        results.append(one.out.bytes + one.state.bytes)
      }
      #expect(results[0] == results[1])
    }
  }

  /// A verified draft and its commit against as many decode steps (f32), or one call of as many tokens (16 bits).
  @Test(arguments: instructionSets) func aCommitIsAsManySteps(_ isa: String) throws {
    let lengths = [4, 1, 40, 3, 0]
    let read = [0, -1, 2, 5, 4]
    let shapes = [(2, 4, 24, 40), (1, 3, 64, 16), (2, 2, 128, 8), (3, 6, 8, 8)]
    for (index, stateType) in (Self.stateTypes + [.f32]).enumerated() {
      for dims in GateDims.allCases {
        for counts in [[4, 1, 40, 3, 0], [0, 0, 0, 0, 0], [2, 1, 33, 1, 0]] {
          let (hk, hv, dk, dv) = shapes[index]
          var shape = DeltaCase.Shape.inPlace(
            lengths, keyHeads: hk, valueHeads: hv, keyDim: dk, valueDim: dv, activation: [.f32, .bf16][index % 2],
            stateType: stateType, outType: .f32)
          shape.gateDims = dims
          (shape.read, shape.write, shape.slots) = (read, [-1, -1, -1, -1, -1], 6)
          var random = Random(seed: UInt64(index))
          var one = try DeltaCase(shape, &random)
          let before = try one.state.copy()
          let tokens = one.op.tokens
          let records = (
            key: try TestTensor(.f32, tokens: tokens, heads: hk, dim: dk),
            delta: try TestTensor(.f32, tokens: tokens, heads: hv, dim: dv),
            decay: try TestTensor(.f32, tokens: tokens, heads: hv, dim: dims == .perKey ? dk : 1)
          )
          for record in [records.key, records.delta, records.decay] { record.fill(with: 77) }
          let kept = Records(key: records.key.view, delta: records.delta.view, decay: records.decay.view)
          let plain = try one.out.copy()
          let unrecorded = one.op.with(out: plain.view)
          one.op = one.op.with(records: kept)
          let device = try device(isa, threads: 3)
          try device.run([.gatedDelta(unrecorded, one.sequences), .gatedDelta(one.op, one.sequences)])
          #expect(one.out.bytes == plain.bytes, "records change nothing")
          #expect(one.state.bytes == before.bytes, "a verify writes no slot")
          let used = lengths.reduce(0, +)
          for record in [records.key, records.delta, records.decay] {
            let untouched = try TestTensor.filled(record, with: 77).rowBytes(used..<tokens)
            #expect(record.rowBytes(used..<tokens) == untouched)
          }

          // A fork (3 reads 5, writes 1), a swap of reads and writes between 0 and 2, and in place.
          let write = [2, 3, 0, 1, 4]
          var commit = Sequences(lengths: lengths, read: read, write: write)
          commit.counts = counts.map { Int32($0) }
          let op = CommitGatedDelta(
            tokens: tokens, keyHeads: hk, valueHeads: hv, keyDim: dk, valueDim: dv, slots: 6, gateDims: dims,
            options: .init(headMap: one.op.options.headMap), records: kept, state: one.state.view)
          try device.run([.commitGatedDelta(op, commit)])

          for sequence in lengths.indices {
            let pool = try before.copy()
            var steps = one
            steps.op = one.op.with(state: pool.view, out: plain.view, records: .some(nil))
            let start = Int(one.sequences.starts[sequence])
            let target = write[sequence]
            try device.run([steps.part([0], from: [start], read: [read[sequence]], write: [target])])
            let calls = stateType == .f32 ? Array(repeating: 1, count: counts[sequence]) : [counts[sequence]]
            var done = 0
            for call in calls {
              try device.run([steps.part([call], from: [start + done], read: [target], write: [target])])
              done += call
            }
            #expect(
              one.state.rowBytes(target..<target + 1) == pool.rowBytes(target..<target + 1),
              "\(stateType) \(dims) sequence \(sequence), \(counts[sequence]) of \(lengths[sequence])")
          }
        }
      }
    }
  }

  @Test(arguments: instructionSets) func aConvCommitIsAsManySteps(_ isa: String) throws {
    let lengths = [6, 1, 12, 0]
    for (type, stateType) in [(DType.f32, DType.f32), (.bf16, .bf16), (.f16, .f32)] {
      for width in [2, 4, 9] {
        for counts in [[6, 1, 12, 0], [0, 0, 0, 0], [1, 1, 3, 0]] {
          var random = Random(seed: UInt64(width))
          let one = try ConvCase(
            lengths: lengths, read: [0, 1, 2, 3], write: [0, 1, 2, 3], channels: 300, width: width, type: type,
            outType: .f32, stateType: stateType, &random)
          let before = try one.state.copy()
          var sequences = Sequences(lengths: lengths, read: [1, 0, -1, 2], write: [0, 1, 3, 2])
          sequences.counts = counts.map { Int32($0) }
          let op = CommitCausalConv1d(
            tokens: one.op.tokens, channels: 300, width: width, slots: one.op.slots, x: one.x.view,
            state: one.state.view)
          try device(isa, threads: 3).run([.commitCausalConv1d(op, sequences)])
          for sequence in lengths.indices {
            let pool = try before.copy()
            let target = Int(sequences.writeSlots[sequence])
            let first = one.op.with(state: pool.view)
            let read = Int(sequences.readSlots[sequence])
            try device(isa).run([.causalConv1d(first, Sequences(lengths: [0], read: [read], write: [target]))])
            for token in 0..<counts[sequence] {
              let step = first.with(x: first.x.after(Int(sequences.starts[sequence]) + token))
              try device(isa).run([.causalConv1d(step, Sequences(lengths: [1], read: [target], write: [target]))])
            }
            #expect(
              one.state.rowBytes(target..<target + 1) == pool.rowBytes(target..<target + 1),
              "\(type) width \(width) sequence \(sequence)")
          }
        }
      }
    }
  }
}

extension TestTensor {
  /// One of the same shape, every element of which is `value`.
  static func filled(_ other: TestTensor, with value: Float) throws -> TestTensor {
    let tensor = try other.copy()
    tensor.fill(with: value)
    return tensor
  }
}
