import CPUKernels
import GatedDeltaTypes
import Testing

@testable import CPUBackend
@testable import KernelReferences

@Suite struct GatedDeltaTests {
  @Test(arguments: instructionSets) func agreesWithTheReference(_ isa: String) throws {
    let device = try device(isa, threads: 2)
    for seed in 0..<60 {
      var random = Random(seed: UInt64(seed))
      let one = try DeltaCase(.any(&random), &random)
      let before = try one.state.copy()
      let outBefore = one.out.bytes
      try device.run([.gatedDelta(one.op, one.sequences)])
      let errors = one.errors(before: before)
      #expect(errors.out <= bound(one.out.dtype, 4e-6), "seed \(seed): \(one.op)")
      #expect(errors.state <= bound(one.state.dtype, 4e-6), "seed \(seed): \(one.op)")

      // Rows beyond the sequences, padding around rows and unwritten slots keep their content.
      let used = Int(one.sequences.starts.last ?? 0)
      for slot in 0..<one.op.slots where !one.sequences.writeSlots.contains(Int32(slot)) {
        #expect(one.state.rowBytes(slot..<slot + 1) == before.rowBytes(slot..<slot + 1))
      }
      var outAfter = one.out.bytes
      for token in 0..<used {
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
    for (valueHeads, length) in [(4, 5), (6, 1), (2, 40)] {
      var results: [([UInt8], [UInt8])] = []
      for threads in 1...5 {
        var random = Random(seed: 11)
        let one = try DeltaCase(.inPlace([length, 3], valueHeads: valueHeads, valueDim: 64), &random)
        try device(isa, threads: threads).run([.gatedDelta(one.op, one.sequences)])
        results.append((one.out.bytes, one.state.bytes))
      }
      for result in results.dropFirst() { #expect(result == results[0]) }
    }
  }

  @Test(arguments: instructionSets) func bitsDoNotDependOnTheBatch(_ isa: String) throws {
    let device = try device(isa, threads: 3)
    for seed in 0..<6 {
      var random = Random(seed: UInt64(100 + seed))
      let lengths = [3, 0, 34, 1, 64]
      let together = try DeltaCase(.inPlace(lengths, activation: .bf16, outType: .f32), &random)
      random = Random(seed: UInt64(100 + seed))
      let alone = try DeltaCase(.inPlace(lengths, activation: .bf16, outType: .f32), &random)
      try device.run([.gatedDelta(together.op, together.sequences)])
      for (s, length) in lengths.enumerated() {
        let start = Int(alone.sequences.starts[s])
        try device.run([alone.part([length], from: [start], read: [s], write: [s])])
      }
      #expect(together.out.bytes == alone.out.bytes)
      #expect(together.state.bytes == alone.state.bytes)
    }
  }

  /// Prefill, token by token and any other split of the same tokens.
  @Test(arguments: instructionSets) func bitsDoNotDependOnTheCalls(_ isa: String) throws {
    let device = try device(isa)
    let splits = [[70], Array(repeating: 1, count: 70), [1, 69], [32, 38], [33, 1, 36], [7, 8, 9, 15, 31]]
    for dims in [(8, 8), (24, 40), (128, 16)] {
      for gates in GateDims.allCases {
        var results: [([UInt8], [UInt8])] = []
        for split in splits {
          var random = Random(seed: UInt64(dims.0))
          var shape = DeltaCase.Shape.inPlace([70], keyDim: dims.0, valueDim: dims.1, outType: .f32)
          shape.gateDims = gates
          let one = try DeltaCase(shape, &random)
          var start = 0
          for length in split {
            try device.run([one.part([length], from: [start], read: [0], write: [0])])
            start += length
          }
          results.append((one.out.bytes, one.state.bytes))
        }
        for result in results.dropFirst() { #expect(result == results[0], "\(dims) \(gates)") }
      }
    }
  }

  @Test(arguments: instructionSets) func everyReadSeesThePoolAsItWas(_ isa: String) throws {
    let device = try device(isa, threads: 2)
    for (read, write) in [([1, 0], [0, 1]), ([0, 0, 0], [2, 0, 1]), ([1, 2, 0], [0, 1, 2]), ([-1, 0], [0, 1])] {
      for length in [0, 1, 5] {
        var shape = DeltaCase.Shape.inPlace(read.map { _ in length })
        shape.read = read
        shape.write = write
        var random = Random(seed: 5)
        let one = try DeltaCase(shape, &random)
        let before = try one.state.copy()
        try device.run([.gatedDelta(one.op, one.sequences)])
        let errors = one.errors(before: before)
        #expect(errors.out <= bound(one.out.dtype) && errors.state <= 2e-6, "\(read) -> \(write), \(length)")
      }
    }
  }

  /// -1 stores zeros first, instead of multiplying the content of an old sequence.
  @Test(arguments: instructionSets) func aFreshSequenceIgnoresTheSlot(_ isa: String) throws {
    let device = try device(isa)
    for stateType in [DType.f32, .f16, .bf16] {
      for length in [0, 1, 40] {
        var shape = DeltaCase.Shape.inPlace([length], stateType: stateType)
        shape.read = [-1]
        var results: [([UInt8], [UInt8])] = []
        for old in [Float.nan, 0] {
          var random = Random(seed: 8)
          let one = try DeltaCase(shape, &random)
          one.state.fill(with: old)
          try device.run([.gatedDelta(one.op, one.sequences)])
          results.append((one.out.bytes, one.state.bytes))
        }
        #expect(results[0] == results[1])
      }
    }
  }

  @Test(arguments: instructionSets) func aDecayOfZeroForgetsExactly(_ isa: String) throws {
    let device = try device(isa)
    for dims in GateDims.allCases {
      for length in [1, 3] {
        var results: [[UInt8]] = []
        for old in [Float(0), 1e30] {
          var shape = DeltaCase.Shape.inPlace([length], outType: .f32)
          shape.gateForm = .log
          shape.gateDims = dims
          var random = Random(seed: 21)
          let one = try DeltaCase(shape, &random)
          one.state.fill(with: old)
          one.gate.fill(with: -.infinity)
          try device.run([.gatedDelta(one.op, one.sequences)])
          results.append(one.out.bytes + one.state.bytes)
        }
        #expect(results[0] == results[1])
      }
      var shape = DeltaCase.Shape.inPlace([1], outType: .f32)
      shape.gateForm = .decay
      shape.gateDims = dims
      var random = Random(seed: 22)
      let one = try DeltaCase(shape, &random)
      one.gate.fill(with: 0)
      one.state.fill(with: .infinity)
      try device.run([.gatedDelta(one.op, one.sequences)])
      #expect(one.out[0, 0, 0].isNaN && one.state[0, 0, 0].isNaN)
    }
  }

  /// A 16-bit state is rounded once a call: it is the rounded f32 state of the same call.
  @Test(arguments: instructionSets) func sixteenBitStatesAreRoundedOnce(_ isa: String) throws {
    let device = try device(isa)
    for stateType in [DType.f16, .bf16] {
      for length in [1, 2, 32, 33, 70] {
        var random = Random(seed: UInt64(length))
        let narrow = try DeltaCase(.inPlace([length], stateType: stateType, outType: .f32), &random)
        random = Random(seed: UInt64(length))
        let wide = try DeltaCase(.inPlace([length], outType: .f32), &random)
        for i in 0..<wide.state.count { wide.state[raw: i] = narrow.state[raw: i] }
        try device.run([.gatedDelta(narrow.op, narrow.sequences), .gatedDelta(wide.op, wide.sequences)])
        #expect(narrow.out.bytes == wide.out.bytes)
        let rounded = (0..<wide.state.count).map { Rounding.round(wide.state[raw: $0], stateType) }
        #expect(rounded == (0..<wide.state.count).map { narrow.state[raw: $0] })
      }
    }
  }
}
