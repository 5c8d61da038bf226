import GatedDeltaTypes
import ShaderParams
import Testing

@testable import MetalBackend

#if os(Linux)
  @testable import Metal

  /// The choice between two forms of a kernel: by what was measured, else by the threads of a pipeline.
  @Suite(.enabled(if: Devices.haveKernels, "there is no translated shader library"), .serialized)
  struct FormTests {
    /// A GPU of one core with pipelines of so many threads.
    func backend(
      threads: Int = 1024, speed: Double? = nil, forms: Forms = Forms(), trials: TrialSize? = nil
    ) throws -> MetalBackend {
      var settings = EmulatedDevice.Settings()
      settings.maxThreads[""] = threads
      settings.speed = speed
      return try MetalBackend(device: Devices.emulated(settings), chip: Chip(cores: 1), forms: forms, trials: trials)
    }

    func linear(_ maker: inout Maker, rows: Int, outputs: Int = 40, products: Products = .rows) throws -> Op {
      let (x, out) = (try maker.tensor(.f32, tokens: rows, dim: 64), try maker.output(.f32, tokens: rows, dim: outputs))
      let weight = try maker.tensor(.f32, tokens: outputs, dim: 64, strided: false)
      let matrix = Matrix(format: .f32, rows: outputs, columns: 64, weight: weight)
      return .linear(Linear(rows: rows, options: .init(products: products), x: x, matrix: matrix, out: out))
    }

    /// One row by blocks of Q4_K: a scale and a minimum of float16, twelve bytes of small ones, 128 of numbers.
    func blocks(_ maker: inout Maker) throws -> Op {
      let (columns, outputs, bytes) = (512, 200, 144)
      let (x, out) = (try maker.tensor(.f32, tokens: 1, dim: columns), try maker.output(.f32, tokens: 1, dim: outputs))
      let stored = columns / 256 * bytes
      let weight = try maker.backend.allocate(byteCount: outputs * stored)
      for word in 0..<(outputs * stored / 4) {
        let value = word % (bytes / 4) == 0 ? 0x1c00_2000 : UInt32(truncatingIfNeeded: (word + 1) &* 0x9e37_79b1)
        weight.pointer.storeBytes(of: value, toByteOffset: 4 * word, as: UInt32.self)
      }
      let view = TensorView(memory: weight, offset: 0, dtype: .u8, tokenStride: stored, headStride: stored)
      return .linear(Linear(rows: 1, x: x, matrix: Matrix(format: .q4K, rows: outputs, columns: columns, weight: view), out: out))
    }

    func decode(_ maker: inout Maker) throws -> Op {
      let (heads, dim, n) = (2, 64, 3)
      func rows(_ width: Int) throws -> TensorView { try maker.tensor(.bf16, tokens: n, heads: heads, dim: width, strided: false) }
      func gates() throws -> TensorView { try maker.tensor(.f32, tokens: n, heads: heads, dim: 1, strided: false) }
      let slots = (0..<n).map { Int32($0) }
      return .gatedDelta(
        GatedDelta(
          tokens: n, keyHeads: heads, valueHeads: heads, keyDim: 64, valueDim: dim, slots: n,
          options: .init(gateForm: .decay, algorithm: .recurrent, scale: 0.25, gateBound: 0), query: try rows(64),
          key: try rows(64), value: try rows(dim), gate: try gates(), beta: try gates(), raw: nil,
          state: try maker.output(.bf16, tokens: n, dim: heads * dim * 64, strided: false),
          out: try maker.output(.bf16, tokens: n, heads: heads, dim: dim)),
        Sequences(count: n, starts: slots + [Int32(n)], readSlots: slots, writeSlots: slots, stagedReads: []))
    }

    /// One row by weights of 4 bits.
    func packed(_ maker: inout Maker) throws -> Op {
      let (columns, outputs) = (2304, 40)
      let (x, out) = (try maker.tensor(.f32, tokens: 1, dim: columns), try maker.output(.f32, tokens: 1, dim: outputs))
      let weight = try maker.backend.allocate(byteCount: outputs * columns / 2)
      for word in 0..<(outputs * columns / 8) {
        weight.pointer.storeBytes(of: UInt32(truncatingIfNeeded: (word + 1) &* 0x9e37_79b1), toByteOffset: 4 * word, as: UInt32.self)
      }
      func factors() throws -> TensorView { try maker.tensor(.f32, tokens: outputs, dim: columns / 64, strided: false) }
      let words = TensorView(memory: weight, offset: 0, dtype: .u32, tokenStride: columns / 8, headStride: columns / 8)
      return .linear(
        Linear(
          rows: 1, x: x,
          matrix: Matrix(format: .affine4G64, rows: outputs, columns: columns, weight: words, scales: try factors(), biases: try factors()),
          out: out))
    }

    func op(_ form: Form, _ maker: inout Maker) throws -> Op {
      switch form {
      case .blocks: try linear(&maker, rows: 70, outputs: 300)
      case .eightRows: try linear(&maker, rows: 9)
      case .fourRows: try linear(&maker, rows: 4)
      case .manyTurns: try packed(&maker)
      case .decodeRows: try decode(&maker)
      case .twoOutputs: try blocks(&maker)
      case .matrixHalves: try linear(&maker, rows: 9, products: .matrix)
      }
    }

    func choice(_ form: Form) -> FormChoice {
      form == .decodeRows
        ? FormChoice(form, of: Kernel(family: .decode, activation: .bf16, storage: .bf16, keyClass: .k64))
        : FormChoice(
          form,
          of: Kernel(
            family: .project, activation: .f32, format: form == .manyTurns ? .affine4G64 : form == .twoOutputs ? .q4K : .f32))
    }

    /// The outputs of the op by one form or the other, and the kernels that it took.
    func run(_ form: Form, _ measured: Forms.Measured?, threads: Int = 1024) throws -> (bytes: [[UInt8]], kernels: Set<Kernel>) {
      let forms = Forms()
      if let measured { forms.add(choice(form), measured) }
      let backend = try backend(threads: threads, forms: forms)
      var maker = Maker(backend, seed: 5)
      #expect(backend.run(try op(form, &maker)) == nil)
      return (maker.outputs.map { Array($0.memory.bytes) }, Set(backend.pipelines.kernels))
    }

    @Test(arguments: Form.allCases) func bothFormsGiveTheSameBits(_ form: Form) throws {
      let many = try run(form, .init(many: 1, few: 2))
      let few = try run(form, .init(many: 2, few: 1))
      #expect(!many.bytes.isEmpty && many.bytes == few.bytes && many.kernels != few.kernels)
    }

    /// Without a measurement the threads of a pipeline decide, and with one they do not.
    @Test(arguments: Form.allCases) func aMeasurementDecides(_ form: Form) throws {
      let (many, few) = (try run(form, nil).kernels, try run(form, nil, threads: 384).kernels)
      #expect(many != few)
      #expect(try run(form, .init(many: 1, few: 1), threads: 384).kernels.isSuperset(of: many.subtracting(few)))
      #expect(try run(form, .init(many: 2, few: 1)).kernels.isDisjoint(with: many.subtracting(few)))
    }

    /// On a GPU whose times follow from accesses of memory the form that reads weights for more rows is faster, whatever the
    /// threads; what `prepare` has chosen is compiled, and equal in equal runs.
    @Test(arguments: Form.allCases) func prepareMeasures(_ form: Form) throws {
      let size = TrialSize(inputs: 256, repeats: 1, rounds: 1)
      var seen: [Forms.Measured] = []
      for _ in 0..<2 {
        let backend = try backend(threads: 384, speed: 1e9, trials: size)
        var maker = Maker(backend, seed: 5)
        let op = try op(form, &maker)
        let outcome = TestSubmission([op])
        backend.prepare(outcome.ops) { outcome.finish($0) }
        #expect(outcome.wait() == nil)
        let measured = try #require(backend.forms[choice(form)])
        seen.append(measured)
        let before = Set(backend.pipelines.kernels)
        #expect(backend.run(op) == nil && Set(backend.pipelines.kernels) == before)
        #expect(measured.takesMany == (measured.many <= measured.few))
        if form == .eightRows || form == .fourRows { #expect(measured.takesMany) }
      }
      #expect(seen[0] == seen[1])
    }

    @Test func nothingIsMeasuredTwice() throws {
      let forms = Forms()
      forms.add(choice(.eightRows), .init(many: 1, few: 2))
      forms.add(choice(.eightRows), .init(many: 2, few: 1))
      #expect(forms[choice(.eightRows)] == .init(many: 1, few: 2) && forms[choice(.fourRows)] == nil)
      #expect(Forms.of(chip: "a chip") === Forms.of(chip: "a chip") && Forms.of(chip: "a chip") !== Forms.of(chip: "another"))
    }

    /// Without trials, and where no time is reported, prepare chooses as before.
    @Test func withoutTimesNothingIsChosen() throws {
      for trials in [nil, TrialSize(inputs: 256, repeats: 1, rounds: 0)] {
        let backend = try backend(trials: trials)
        var maker = Maker(backend, seed: 5)
        let outcome = TestSubmission([try op(.eightRows, &maker)])
        backend.prepare(outcome.ops) { outcome.finish($0) }
        #expect(outcome.wait() == nil && backend.forms.all.isEmpty)
      }
    }
  }
#endif
