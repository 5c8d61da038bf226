import CPUKernels
import GatedDeltaTypes
import Testing

@testable import CPUBackend
@testable import KernelReferences

/// `algorithm: chunked`: different bits, with the same promises except for where calls may be split.
@Suite struct ChunkedTests {
  static let chunk = 16
  static let dims = [(8, 8), (24, 40), (128, 16), (64, 72), (256, 24)]

  func chunked(_ shape: DeltaCase.Shape, seed: UInt64) throws -> DeltaCase {
    var random = Random(seed: seed)
    var one = try DeltaCase(shape, &random)
    one.op = one.op.with(algorithm: .chunked)
    return one
  }

  @Test(arguments: instructionSets) func agreesWithTheReference(_ isa: String) throws {
    let device = try device(isa, threads: 2)
    for seed in 0..<80 {
      var random = Random(seed: UInt64(seed))
      var one = try DeltaCase(.any(&random), &random)
      one.op = one.op.with(algorithm: .chunked)
      let before = try one.state.copy()
      let outBefore = one.out.bytes
      try device.run([.gatedDelta(one.op, one.sequences)])
      let errors = one.errors(before: before)
      #expect(errors.out <= bound(one.out.dtype, 5e-6), "seed \(seed): \(one.op)")
      #expect(errors.state <= bound(one.state.dtype, 5e-6), "seed \(seed): \(one.op)")

      // Rows beyond the sequences, padding around rows and unwritten slots keep their content.
      for slot in 0..<one.op.slots where !one.sequences.writeSlots.contains(Int32(slot)) {
        #expect(one.state.rowBytes(slot..<slot + 1) == before.rowBytes(slot..<slot + 1))
      }
      var outAfter = one.out.bytes
      for token in 0..<Int(one.sequences.starts.last ?? 0) {
        for head in 0..<one.op.valueHeads {
          let from = one.out.index(token, head, 0) * one.out.dtype.size
          let range = from..<from + one.op.valueDim * one.out.dtype.size
          outAfter.replaceSubrange(range, with: outBefore[range])
        }
      }
      #expect(outAfter == outBefore, "seed \(seed)")
    }
  }

  @Test(arguments: instructionSets) func bitsDoNotDependOnTheThreads(_ isa: String) throws {
    for (keyHeads, valueHeads, length) in [(2, 4, 5), (2, 6, 1), (1, 5, 40), (1, 1, 33)] {
      for gates in GateDims.allCases {
        var results: [([UInt8], [UInt8])] = []
        for threads in 1...5 {
          var shape = DeltaCase.Shape.inPlace(
            [length, 3, 0], keyHeads: keyHeads, valueHeads: valueHeads, keyDim: 40, valueDim: 72)
          shape.gateDims = gates
          let one = try chunked(shape, seed: 11)
          try device(isa, threads: threads).run([.gatedDelta(one.op, one.sequences)])
          results.append((one.out.bytes, one.state.bytes))
        }
        for result in results.dropFirst() { #expect(result == results[0]) }
      }
    }
  }

  @Test(arguments: instructionSets) func bitsDoNotDependOnTheBatch(_ isa: String) throws {
    let device = try device(isa, threads: 3)
    for seed in 0..<6 {
      let lengths = [3, 0, 34, 1, 64]
      let shape = DeltaCase.Shape.inPlace(lengths, activation: .bf16, outType: .f32)
      let together = try chunked(shape, seed: UInt64(100 + seed)), alone = try chunked(shape, seed: UInt64(100 + seed))
      try device.run([.gatedDelta(together.op, together.sequences)])
      for (s, length) in lengths.enumerated() {
        let start = Int(alone.sequences.starts[s])
        try device.run([alone.part([length], from: [start], read: [s], write: [s])])
      }
      #expect(together.out.bytes == alone.out.bytes)
      #expect(together.state.bytes == alone.state.bytes)
    }
  }

  /// Calls that end at multiples of the chunk.
  @Test(arguments: instructionSets) func bitsDoNotDependOnTheCalls(_ isa: String) throws {
    let device = try device(isa)
    let splits = [[70], [16, 54], [32, 32, 6], [48, 22], [64, 6], [16, 16, 16, 16, 6]]
    for dims in Self.dims {
      for gates in GateDims.allCases {
        var results: [([UInt8], [UInt8])] = []
        for split in splits {
          var shape = DeltaCase.Shape.inPlace([70], keyDim: dims.0, valueDim: dims.1, outType: .f32)
          shape.gateDims = gates
          let one = try chunked(shape, seed: UInt64(dims.0))
          var start = 0
          for length in split {
            #expect(start % Self.chunk == 0)
            try device.run([one.part([length], from: [start], read: [0], write: [0])])
            start += length
          }
          results.append((one.out.bytes, one.state.bytes))
        }
        for result in results.dropFirst() { #expect(result == results[0], "\(dims) \(gates)") }
      }
    }
  }

  /// Stores at every position: each has the final state of a call of as many tokens, and no other bit changes.
  @Test(arguments: instructionSets) func aStoreIsAShorterCallAndChangesNothingElse(_ isa: String) throws {
    let lengths = [3, 0, 35]
    for ((keyDim, valueDim), stateType) in zip(Self.dims, [DType.f32, .bf16, .f32, .f16, .f32]) {
      for gates in GateDims.allCases {
        var shape = DeltaCase.Shape.inPlace(
          lengths, keyDim: keyDim, valueDim: valueDim, stateType: stateType, outType: .f32)
        var stores = StateStores(offsets: [0], stores: [])
        var slot = 3
        for length in lengths {
          for tokens in 0...length {
            stores.stores.append(.init(tokens: Int32(tokens), target: .slot(Int32(slot))))
            slot += 1
          }
          stores.offsets.append(Int32(stores.stores.count))
        }
        (shape.read, shape.write, shape.slots, shape.gateDims) = ([2, 0, -1], [0, 1, 2], slot, gates)
        var one = try chunked(shape, seed: UInt64(keyDim))
        let plain = try chunked(shape, seed: UInt64(keyDim)), before = try one.state.copy()
        one.sequences.stores = stores
        let device = try device(isa, threads: 2)
        try device.run([.gatedDelta(one.op, one.sequences), .gatedDelta(plain.op, plain.sequences)])
        #expect(one.out.bytes == plain.out.bytes)
        #expect(one.state.rowBytes(0..<3) == plain.state.rowBytes(0..<3))

        for (sequence, length) in lengths.enumerated() {
          for tokens in 0...length {
            let pool = try before.copy()
            var shorter = one
            shorter.op = one.op.with(state: pool.view, out: try one.out.copy().view)
            let start = Int(one.sequences.starts[sequence])
            try device.run([shorter.part([tokens], from: [start], read: [shape.read[sequence]], write: [2])])
            for store in stores.of(sequence) where store.tokens == tokens {
              guard case .slot(let slot) = store.target else { continue }
              #expect(
                one.state.rowBytes(Int(slot)..<Int(slot) + 1) == pool.rowBytes(2..<3),
                "\(stateType) \(gates) sequence \(sequence) after \(tokens)")
            }
          }
        }
      }
    }
  }

  @Test(arguments: instructionSets) func everyReadSeesThePoolAsItWas(_ isa: String) throws {
    let device = try device(isa, threads: 2)
    for (read, write) in [([1, 0], [0, 1]), ([0, 0, 0], [2, 0, 1]), ([1, 2, 0], [0, 1, 2]), ([-1, 0], [0, 1])] {
      for length in [0, 1, 5, 17] {
        var shape = DeltaCase.Shape.inPlace(read.map { _ in length })
        (shape.read, shape.write) = (read, write)
        let one = try chunked(shape, seed: 5)
        let before = try one.state.copy()
        try device.run([.gatedDelta(one.op, one.sequences)])
        let errors = one.errors(before: before)
        #expect(errors.out <= bound(one.out.dtype, 5e-6) && errors.state <= 5e-6, "\(read) -> \(write), \(length)")
      }
    }
  }

  /// -1 stores zeros first, instead of multiplying the content of an old sequence.
  @Test(arguments: instructionSets) func aFreshSequenceIgnoresTheSlot(_ isa: String) throws {
    for stateType in [DType.f32, .f16, .bf16] {
      for length in [0, 1, 40] {
        var shape = DeltaCase.Shape.inPlace([length], stateType: stateType)
        shape.read = [-1]
        var results: [([UInt8], [UInt8])] = []
        for old in [Float.nan, 0] {
          let one = try chunked(shape, seed: 8)
          one.state.fill(with: old)
          try device(isa).run([.gatedDelta(one.op, one.sequences)])
          results.append((one.out.bytes, one.state.bytes))
        }
        #expect(results[0] == results[1])
      }
    }
  }

  /// A decay of 0 erases the state, however large: at a chunk's first token, and within a chunk.
  @Test(arguments: instructionSets) func aDecayOfZeroForgetsExactly(_ isa: String) throws {
    for dims in GateDims.allCases {
      for (length, zeroAt) in [(1, 0), (3, 0), (20, 5), (40, 16), (40, 21)] {
        var results: [[UInt8]] = []
        // Values that are erased before they are read may be too large to be summed.
        for old in [Float(0), 1e30] + (zeroAt == 0 ? [3e38] : []) {
          var shape = DeltaCase.Shape.inPlace([length], outType: .f32)
          (shape.gateForm, shape.gateDims) = (.log, dims)
          let one = try chunked(shape, seed: 21)
          for head in 0..<one.op.valueHeads {
            for i in 0..<(dims == .perKey ? one.op.keyDim : 1) {
              one.gate[raw: one.gate.index(zeroAt, head, i)] = -.infinity
            }
          }
          one.state.fill(with: old)
          try device(isa).run([.gatedDelta(one.op, one.sequences)])
          results.append(one.out.rowBytes(zeroAt..<length) + one.state.bytes)
        }
        for result in results { #expect(result == results[0], "\(dims) \(length) \(zeroAt)") }
      }
    }
  }

  /// A 16-bit state is rounded once a call: it is the rounded f32 state of the same call.
  @Test(arguments: instructionSets) func sixteenBitStatesAreRoundedOnce(_ isa: String) throws {
    let device = try device(isa)
    for stateType in [DType.f16, .bf16] {
      for length in [1, 2, 16, 33, 70] {
        let narrow = try chunked(.inPlace([length], stateType: stateType, outType: .f32), seed: UInt64(length))
        let wide = try chunked(.inPlace([length], outType: .f32), seed: UInt64(length))
        for i in 0..<wide.state.count { wide.state[raw: i] = narrow.state[raw: i] }
        try device.run([.gatedDelta(narrow.op, narrow.sequences), .gatedDelta(wide.op, wide.sequences)])
        #expect(narrow.out.bytes == wide.out.bytes)
        let rounded = (0..<wide.state.count).map { Rounding.round(wide.state[raw: $0], stateType) }
        #expect(rounded == (0..<wide.state.count).map { narrow.state[raw: $0] })
      }
    }
  }

  @Test(arguments: instructionSets) func aSourceIsReadInsteadOfThePool(_ isa: String) throws {
    for stateType in [DType.f32, .f16, .bf16] {
      var shape = DeltaCase.Shape.inPlace([2, 0, 19, 1], stateType: stateType, outType: .f32)
      (shape.read, shape.write, shape.slots) = ([3, 1, 3, -1], [0, 1, 3, 2], 4)
      var results: [[UInt8]] = []
      for fromSource in [false, true] {
        var one = try chunked(shape, seed: 17)
        let source = try one.state.copy()
        if fromSource {
          one.state.fill(with: .nan)
          one.op = one.op.with(states: one.op.states.with(source: source.view, slots: 4))
          one.sequences.stagedReads = []
        }
        try device(isa, threads: 2).run([.gatedDelta(one.op, one.sequences)])
        results.append(one.out.bytes + one.state.bytes)
      }
      #expect(results[0] == results[1], "\(stateType)")
    }
  }
}
