import GatedDeltaTypes
import ShaderParams
import Testing

@testable import KernelReferences
@testable import MetalBackend

#if os(Linux)
  import CEmulator
  import Glibc
  @testable import Metal

  /// The Metal calls that the host makes for its dispatches.
  @Suite(.enabled(if: Devices.haveKernels, "there is no translated shader library"))
  struct EncodingTests {
    /// Rows of one shape, each op with tensors of its own.
    func sums(_ backend: MetalBackend, _ count: Int) throws -> [Op] {
      try (0..<count).map { _ in
        let memory = try backend.allocate(byteCount: 16384)
        func view(_ row: Int) -> TensorView {
          TensorView(memory: memory, offset: 256 * row, dtype: .f32, tokenStride: 64, headStride: 64)
        }
        return .elementwise(
          Elementwise(
            .add, tokens: 1, heads: 1, dim: 64, a: view(0), b: view(1), out: view(2), replacesA: false,
            replacesB: false))
      }
    }

    /// The calls for these ops, encoded as one command buffer.
    func calls(_ backend: MetalBackend, _ ops: [Op]) throws -> EncoderCalls {
      var encoding = try Encoding(device: backend)
      for op in ops { try encoding.add(EncodedOp(op, name: "anOp", borrows: false)) }
      encoding.end()
      #expect(encoding.commandBuffers.count == 1)
      return try #require(encoding.commandBuffers.first as? EmulatedCommandBuffer).encoderCalls
    }

    @Test func whatIsSetIsNotSetAgain() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      let ops = try sums(backend, 8)
      // One pipeline and one constant for all; three buffers each.
      #expect(try calls(backend, ops) == EncoderCalls(dispatches: 8, pipelines: 1, buffers: 24, bytes: 1))
      // The same op again: it waits for itself, and everything is set.
      #expect(
        try calls(backend, [ops[0], ops[0]]) == EncoderCalls(dispatches: 2, barriers: 1, pipelines: 1, buffers: 3, bytes: 1))
      // Another command buffer begins with no bindings, regardless of the pass before it.
      #expect(try calls(backend, [ops[0]]) == EncoderCalls(dispatches: 1, pipelines: 1, buffers: 3, bytes: 1))
    }

    /// Slots of more sequences than a constant holds are copied once for ops that have the same.
    @Test func equalTablesAreOneTable() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      func copy(_ shift: Int32) throws -> Op {
        let pool = try backend.allocate(byteCount: 16384)
        return .copySlots(
          CopySlots(slots: 64, slotElements: 4, pool: TensorView(memory: pool, offset: 0, dtype: .f32, tokenStride: 4, headStride: 4)),
          Sequences(
            count: 20, starts: [], readSlots: (0..<20).map { $0 + shift }, writeSlots: (0..<20).map { $0 + 40 },
            stagedReads: []))
      }
      let same = try (0..<3).map { _ in try copy(0) }
      // The pool, no staged slots, and where slots are read and written; then pools alone.
      #expect(try calls(backend, same).buffers == 4 + 1 + 1)
      #expect(try calls(backend, [same[0], copy(1)]).buffers == 4 + 3)
      let values = same[0]
      guard case .copySlots(let op, _) = values else { return }
      for i in 0..<256 { op.pool.memory.write(Float(i), .f32, i) }
      #expect(backend.run(try copy(1), values, try copy(0)) == nil)
      #expect((0..<80).allSatisfy { op.pool.memory.read(.f32, 160 + $0) == Float($0) })
    }

    /// A constant that differs from the last in one number is set.
    @Test func constantsThatDifferAreSet() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      let memory = try backend.allocate(byteCount: 1 << 20)
      func sum(_ stride: Int) -> Op {
        func view(_ place: Int) -> TensorView {
          TensorView(memory: memory, offset: place << 18, dtype: .f32, tokenStride: stride, headStride: stride)
        }
        return .elementwise(
          Elementwise(
            .add, tokens: 2, heads: 1, dim: 64, a: view(0), b: view(1), out: view(2), replacesA: false,
            replacesB: false))
      }
      #expect(try calls(backend, [sum(64), sum(64), sum(72), sum(64)]).bytes == 3)
    }

    /// A host that gives a kernel a wrong structure or a wrong number of arguments.
    @Test func wrongBindingsAreFound() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      let memory = try #require(backend.allocate(byteCount: 16384) as? MetalMemory)
      let rows = (0..<4).map { Argument.reads(Region(memory, offset: 256 * $0, byteCount: 256)) }
      let out = Argument.writes(Region(memory, offset: 4096, byteCount: 256))
      var kernel = Kernel(family: .elementwise, operation: .add, activation: .f32)
      kernel.constants.set(.outF32, true)
      kernel.constants.set(.alignedRows, false)
      func problem<Params>(_ arguments: [Argument], _ params: Params) throws -> String? {
        let commandBuffer = try #require(backend.queue.makeCommandBuffer())
        let encoder = try #require(commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent))
        var pass = Pass(device: backend, encoder: encoder, arena: Arena(pool: backend.arenas))
        try pass.dispatch(kernel, arguments, params, groups: (1, 1, 1), threads: .exactly(GDM_COPY_THREADS))
        encoder.endEncoding()
        commandBuffer.commit()
        commandBuffer.waitUntilCompleted()
        return commandBuffer.error.map { "\($0)" }
      }
      var params = GDMElementwise()
      params.heads = 1
      #expect(try problem([rows[0], rows[1], out], UInt32(0))?.contains("(params): 4 bytes of setBytes for") == true)
      #expect(try problem([rows[0], rows[1], out, rows[2]], params)?.contains("the kernel has no such argument") == true)
      #expect(try problem([rows[0], rows[1], out], params) == nil)
    }

    /// The estimate that decides whether command buffers are committed as they fill is never below their number.
    @Test(arguments: UInt64(0)..<24) func commandBuffersAreAtMostWhatWasSaid(_ seed: UInt64) throws {
      let backend = try MetalBackend(device: Devices.emulated())
      var maker = Maker(backend, seed: seed)
      var ops = try (0..<3).map { _ in try maker.op(maker.random.int(0...5)) }
      ops.append(try maker.attention(lengths: [maker.random.int(1...40), maker.random.int(1...300)]))
      ops.append(try maker.gatedDelta(algorithm: .recurrent, lengths: [maker.random.int(16...90)]))
      let most = try #require(ops.map(\.work).max())
      for divisor in [1, 2, 3, 5, 9, 17] {
        backend.workLimit.fix(max(1, most / divisor - divisor % 2))
        let encoded = ops.map { EncodedOp($0, name: "anOp", borrows: false) }
        var encoding = try Encoding(device: backend)
        for op in encoded { try encoding.add(op) }
        encoding.end()
        let said = Encoding.commandBuffers(of: encoded, workLimit: backend.workLimit.value)
        #expect(encoding.commandBuffers.count <= said, "1/\(divisor): \(encoding.commandBuffers.count) of \(said)")
        backend.arenas.giveBack(encoding.chunks)
      }
    }
  }

  @Suite(.enabled(if: Devices.haveKernels, "there is no translated shader library"))
  struct ResidencyTests {
    func set(_ backend: MetalBackend) throws -> EmulatedResidencySet {
      try #require((backend.queue as? EmulatedQueue)?.residencySets.first as? EmulatedResidencySet)
    }

    @Test func memoryIsResidentFromItsFirstSubmissionToItsEnd() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      let set = try set(backend)
      let before = set.counts.wanted
      weak var buffer: (any MTLBuffer)?
      do {
        let memory = try #require(try backend.allocate(byteCount: 1 << 20) as? MetalMemory)
        buffer = memory.buffer
        #expect(set.containsAllocation(memory.buffer) && !set.holds(memory.buffer))
        #expect(backend.run() == nil)
        #expect(set.holds(memory.buffer) && set.counts.wanted == before + 1)
        let commits = set.counts.commits
        for _ in 0..<3 { #expect(backend.run() == nil) }
        #expect(set.counts.commits == commits)
      }
      #expect(buffer == nil && set.counts.wanted == before)
    }

    /// No more memory is made resident at once than the GPU may use.
    @Test func noMoreThanTheWorkingSet() throws {
      var settings = EmulatedSettings()
      settings.workingSet = 3 << 20
      let backend = try MetalBackend(device: Devices.emulated(settings))
      let set = try set(backend)
      func buffer(_ memory: Memory?) throws -> any MTLBuffer { try #require(memory as? MetalMemory).buffer }
      var first: Memory? = try backend.allocate(byteCount: 2 << 20)
      let second = try backend.allocate(byteCount: 2 << 20)
      #expect(try set.containsAllocation(buffer(first)) && !set.containsAllocation(buffer(second)))
      first = nil
      let third = try backend.allocate(byteCount: 2 << 20)
      #expect(try set.containsAllocation(buffer(third)))
      // Buffers that are not in the set are used all the same.
      var maker = Maker(backend, seed: 1)
      #expect(backend.run(try maker.norm()) == nil)
    }

    @Test func whatTheGPUTakesIsTold() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      #expect(backend.gpuNanoseconds == 0)
      var maker = Maker(backend, seed: 1)
      #expect(backend.run(try maker.norm()) == nil)
      #expect(backend.gpuNanoseconds > 0)
    }
  }
#endif
