import GatedDeltaTypes
import Testing

@testable import KernelReferences
@testable import MetalBackend

/// How much a command buffer does, by the times of those before it.
@Suite struct WorkLimitTests {
  /// A command buffer, and the limit after it.
  struct Case: Sendable {
    var limit, work: Int
    var seconds: Double
    var after: Int

    /// Each number but the time as the logarithm of it.
    init(_ limit: Int, _ work: Int, _ seconds: Double, _ after: Int) {
      self.limit = 1 << limit
      self.work = 1 << work
      self.seconds = seconds
      self.after = 1 << after
    }
  }

  static let cases: [Case] = [
    // Within 50 to 100 ms nothing changes, nor after times that Metal does not report.
    Case(32, 32, 0.06, 32), Case(32, 31, 0.1, 32), Case(32, 32, 0, 32),
    // Too long: as much as takes 75 ms.
    Case(32, 32, 0.3, 30), Case(33, 29, 0.15, 28),
    // Little work that took long: not all at once.
    Case(32, 20, 0.15, 30), Case(32, 27, 0.15, 30), Case(28, 20, 1, 28),
    // Short: up to twice as much, if it was nearly full.
    Case(32, 32, 0.0375, 33), Case(32, 32, 0.001, 33), Case(32, 30, 0.001, 32),
    // Bounds.
    Case(29, 29, 100, 28), Case(38, 38, 0.001, 38),
  ]

  @Test(arguments: cases) func followsWhatWasMeasured(_ one: Case) {
    let after = WorkLimit().after(limit: one.limit, work: one.work, seconds: one.seconds)
    #expect(after == one.after)
  }

  @Test func isFixedByATest() {
    let limit = WorkLimit(first: 1 << 32)
    limit.fix(5)
    limit.ran(work: 5, seconds: 0.001)
    limit.ended()
    #expect(limit.value == 5 && WorkLimit().value > 5)
  }

  @Test func isSmallerAfterAnEnd() {
    let limit = WorkLimit(first: 1 << 33)
    limit.ended()
    #expect(limit.value == 1 << 30 && WorkLimit().value <= 1 << 30)
  }
}

#if os(Linux)
  @testable import Metal

  /// A GPU whose times follow from its kernels' accesses of memory, and a system that ends what takes long.
  @Suite(.enabled(if: Devices.haveKernels, "there is no translated shader library"))
  struct SplittingTests {
    static let kinds = ["linear", "linear16", "expertLinear", "gatedDelta", "attention", "many"]

    /// Work of one kind: large for what follows, and the tensors that it writes.
    func ops(_ kind: String, _ maker: inout Maker) throws -> (ops: [Op], outputs: [TensorView]) {
      switch kind {
      case "linear", "linear16":
        let dtype: DType = kind == "linear" ? .f32 : .bf16
        let x = try maker.tensor(dtype, tokens: 150, dim: 64)
        let residual = try maker.tensor(dtype, tokens: 150, dim: 40)
        let out = try maker.output(dtype, tokens: 150, dim: 40)
        let weight = try maker.tensor(dtype, tokens: 40, dim: 64, strided: false)
        let op = Linear(rows: 150, inFeatures: 64, outFeatures: 40, x: x, weight: weight, residual: residual, out: out)
        return ([.linear(op)], [out])
      case "expertLinear":
        let op = try experts(&maker, tokens: 90)
        return ([.expertLinear(op)], [op.out])
      case "gatedDelta":
        let op = try maker.gatedDelta(algorithm: .recurrent, lengths: [200, 70])
        return ([op], maker.outputs)
      case "attention":
        let op = try maker.attention(lengths: [120, 64])
        guard case .attention(let attention, _) = op else { return ([], []) }
        return ([op], [attention.out])
      default:
        let ops = try (0..<40).map { _ in
          let (x, out) = (try maker.tensor(.f32, tokens: 4, dim: 64), try maker.output(.f32, tokens: 4, dim: 40))
          let weight = try maker.tensor(.f32, tokens: 40, dim: 64, strided: false)
          return Op.linear(Linear(rows: 4, inFeatures: 64, outFeatures: 40, x: x, weight: weight, out: out))
        }
        return (ops, maker.outputs)
      }
    }

    /// Three experts of three.
    func experts(_ maker: inout Maker, tokens: Int, wrong: Int? = nil) throws -> ExpertLinear {
      let (chosen, count, columns, rows) = (2, 3, 64, 24)
      let weight = try maker.tensor(.f32, tokens: count * rows, dim: columns, strided: false)
      let memory = try maker.backend.allocate(byteCount: 4 * tokens * chosen)
      for row in 0..<(tokens * chosen) {
        let id: Int32 = row == wrong ? 7 : Int32((row * 5 + row / 7) % count)
        memory.pointer.storeBytes(of: id, toByteOffset: 4 * row, as: Int32.self)
      }
      return ExpertLinear(
        tokens: tokens, chosen: chosen, experts: count, x: try maker.tensor(.f32, tokens: tokens, dim: columns),
        sharesRows: true, matrices: Matrix(format: .f32, rows: count * rows, columns: columns, weight: weight),
        ids: TensorView(memory: memory, offset: 0, dtype: .id32, tokenStride: 0, headStride: 0),
        out: try maker.output(.f32, tokens: tokens, heads: chosen, dim: rows))
    }

    func submit(_ ops: [Op], _ backend: MetalBackend) -> Failure? {
      let submission = TestSubmission(ops)
      backend.submit(submission)
      return submission.wait()
    }

    /// The seconds of all of it at a million accesses a second.
    func seconds(_ kind: String) throws -> (seconds: Double, work: Int, outputs: [TensorView]) {
      var settings = EmulatedSettings()
      settings.speed = 1e6
      let backend = try MetalBackend(device: Devices.emulated(settings))
      var maker = Maker(backend, seed: 5)
      let (ops, outputs) = try ops(kind, &maker)
      #expect(submit(ops, backend) == nil)
      return (Double(backend.gpuNanoseconds) * 1e-9, ops.reduce(0) { $0 + $1.work }, outputs)
    }

    @Test(arguments: kinds) func noCommandBufferIsEnded(_ kind: String) throws {
      let (whole, work, expected) = try seconds(kind)
      // A sixteenth of the work may take a quarter of the time, and of attention, whose first rows have few keys, half.
      var settings = EmulatedSettings()
      settings.speed = 1e6
      settings.patience = kind == "attention" ? whole / 2 : whole / 4
      let backend = try MetalBackend(device: Devices.emulated(settings), workLimit: WorkLimit(first: work / 16))
      backend.workLimit.fix(work / 16)
      var maker = Maker(backend, seed: 5)
      let (ops, outputs) = try ops(kind, &maker)
      #expect(submit(ops, backend) == nil, "\(kind)")
      #expect(backend.gpuNanoseconds > 0)
      for (a, b) in zip(outputs, expected) { #expect(a.memory.bytes.elementsEqual(b.memory.bytes), "\(kind)") }
      // The same work at once is ended.
      let large = try MetalBackend(device: Devices.emulated(settings))
      var other = Maker(large, seed: 5)
      let (again, _) = try self.ops(kind, &other)
      let failure = try #require(submit(again, large))
      #expect(failure.code == .device && failure.expected.contains("leaves the GPU to the display"))
    }

    /// From far too much and from far too little, the limit comes to what takes 50 to 100 ms.
    @Test(arguments: [1 << 30, 1 << 12]) func theLimitAdapts(_ first: Int) throws {
      let (whole, work, _) = try seconds("linear")
      var settings = EmulatedSettings()
      settings.speed = 1e6 * whole  // the whole takes a second
      let limit = WorkLimit(first: first, bounds: 1 << 8...1 << 38)
      let backend = try MetalBackend(device: Devices.emulated(settings), workLimit: limit)
      var maker = Maker(backend, seed: 5)
      let (ops, _) = try ops("linear", &maker)
      for _ in 0..<8 { #expect(submit(ops, backend) == nil) }
      // Parts are whole rows, and those that read a matrix for few rows take longer.
      #expect(limit.value > work / 40 && limit.value < work / 8, "\(limit.value) of \(work)")
    }

    @Test func whatIsEndedAndWhatIsIgnoredHaveNames() throws {
      var settings = EmulatedSettings()
      settings.speed = 1e6
      settings.patience = 1e-6
      let backend = try MetalBackend(device: Devices.emulated(settings))
      var maker = Maker(backend, seed: 5)
      let (ops, _) = try ops("linear", &maker)
      let (first, second) = (TestSubmission(ops), TestSubmission(ops))
      backend.submit(first)
      backend.submit(second)
      let ended = try #require(first.wait())
      #expect(ended.code == .device && ended.expected == "work that leaves the GPU to the display in time")
      #expect(ended.received.contains("Impacting Interactivity"))
      let ignored = try #require(second.wait())
      #expect(ignored.code == .device && ignored.expected.contains("close this one and open another"))
      #expect { try backend.check(ops[0]) } throws: { ($0 as? Failure)?.argument == "device" }
      // Another device is another queue, and begins with less.
      let next = try MetalBackend(device: Devices.emulated())
      #expect(next.workLimit.value <= WorkLimit.first / WorkLimit.afterEnd)
      var other = Maker(next, seed: 5)
      #expect(submit(try self.ops("linear", &other).ops, next) == nil)
    }

    /// A wrong id in a later part has the caller's row.
    @Test func aWrongIdOfALaterPartHasItsPlace() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      var maker = Maker(backend, seed: 5)
      let op = try experts(&maker, tokens: 60, wrong: 75)
      backend.workLimit.fix(op.work / 9)
      let failure = try #require(submit([.expertLinear(op)], backend))
      #expect(failure.argument == "ids[37, 1]" && failure.received == "7")
    }
  }
#endif
