import CPUBackend
import GatedDeltaTypes
import Testing

@testable import KernelReferences
@testable import MetalBackend

#if os(Linux)
  @testable import Metal
#else
  import Metal
#endif

/// Every op on the GPU (emulated if there is none) against the CPU backend: the host's bindings are right
/// if nothing faults and results agree.
@Suite(.enabled(if: Devices.haveKernels, "there is no GPU and no translated shader library"))
struct OpTests {
  static let names = ["gatedDelta", "causalConv1d", "gatedRmsNorm", "gatedDeltaStep", "linear", "copySlots"]

  @Test(arguments: 0..<Maker.kinds) func randomOps(_ kind: Int) throws {
    let (metal, cpu) = (try Devices.backend(), try CPUBackend.open(threads: 1))
    for seed in UInt64(0)..<16 {
      var (a, b) = (Maker(metal, seed: seed), Maker(cpu, seed: seed))
      let failures = (metal.run(try a.op(kind)), cpu.run(try b.op(kind)))
      #expect(failures.0 == nil && failures.1 == nil, "\(Self.names[kind]) \(seed): \(failures)")
      let far = distance(a, b)
      // A last bit of bfloat16 or float16 may round the other way.
      let has16 =
        a.outputs.contains { $0.dtype == .bf16 } ? 4e-3 : a.outputs.contains { $0.dtype == .f16 } ? 5e-4 : 2e-6
      #expect(far < has16, "\(Self.names[kind]) \(seed): \(far) apart")
    }
  }

  /// Ops of one submission see the results of those before them, also where the host split it into command buffers.
  @Test(arguments: [WorkLimit.first, 1]) func opsOfASubmissionRunInOrder(_ limit: Int) throws {
    let backend = try Devices.backend()
    backend.workLimit.fix(limit)
    var maker = Maker(backend, seed: 1)
    let (n, dim) = (3, 40)
    let tensors = try (0..<9).map { _ in try maker.tensor(.f32, tokens: n, dim: dim, strided: false) }
    let identity = try maker.tensor(.f32, tokens: dim, dim: dim, strided: false)
    for i in 0..<(dim * dim) { identity.memory.write(i % (dim + 1) == 0 ? 2 : 0, .f32, i) }
    let ops = zip(tensors, tensors.dropFirst()).map { x, out in
      Op.linear(Linear(rows: n, inFeatures: dim, outFeatures: dim, x: x, weight: identity, out: out))
    }
    let submission = TestSubmission(ops)
    backend.submit(submission)
    #expect(submission.wait() == nil)
    for i in 0..<(n * dim) {
      #expect(tensors[8].memory.read(.f32, i) == 256 * tensors[0].memory.read(.f32, i))
    }
  }

  /// A tensor that wraps another's memory is that memory, within a submission and from one to the next.
  @Test func memoryThatIsWrappedTwice() throws {
    let backend = try Devices.backend()
    var maker = Maker(backend, seed: 2)
    let dim = 64
    let weight = try maker.tensor(.f32, tokens: dim, dim: dim, strided: false)
    for i in 0..<(dim * dim) { weight.memory.write(i % (dim + 1) == 0 ? 3 : 0, .f32, i) }
    func row(_ memory: Memory) -> TensorView {
      TensorView(memory: memory, offset: 0, dtype: .f32, tokenStride: dim, headStride: dim)
    }
    func scaled(_ x: Memory, _ out: Memory) -> Op {
      .linear(Linear(rows: 1, inFeatures: dim, outFeatures: dim, x: row(x), weight: weight, out: row(out)))
    }
    let (first, middle, last) = (
      try backend.allocate(byteCount: 16384), try backend.allocate(byteCount: 16384),
      try backend.allocate(byteCount: 16384)
    )
    let alias = try backend.wrap(pointer: middle.pointer, byteCount: 16384)
    #expect(alias.isWrapped && alias.pointer == middle.pointer)
    for i in 0..<dim { first.write(Float(i), .f32, i) }
    #expect(backend.run(scaled(first, middle), scaled(alias, last)) == nil)
    #expect((0..<dim).allSatisfy { last.read(.f32, $0) == Float(9 * $0) })
    let (a, b) = (TestSubmission([scaled(last, alias)]), TestSubmission([scaled(middle, last)]))
    backend.submit(a)
    backend.submit(b)
    #expect(b.wait() == nil && a.wait() == nil)
    #expect((0..<dim).allSatisfy { last.read(.f32, $0) == Float(81 * $0) })
  }

  /// More index data than setBytes takes, and more sequences than a threadgroup has threads.
  @Test func manySequences() throws {
    let (metal, cpu) = (try Devices.backend(), try CPUBackend.open(threads: 1))
    let n = 2000
    func build(_ maker: inout Maker) throws -> Op {
      let (channels, width) = (3, 4)
      let sequences = Sequences(
        count: n, starts: (0...n).map { Int32($0 / 2) }, readSlots: (0..<n).map { Int32($0) },
        writeSlots: (0..<n).map { Int32(n - 1 - $0) }, stagedReads: (0..<n).map { Int32($0) })
      return .causalConv1d(
        CausalConv1d(
          tokens: n / 2, channels: channels, width: width, slots: n, options: .init(),
          x: try maker.tensor(.f32, tokens: n / 2, dim: channels),
          weight: try maker.tensor(.f32, tokens: channels, dim: width, strided: false), bias: nil,
          state: try maker.output(.f32, tokens: n, dim: channels * (width - 1), strided: false),
          out: try maker.output(.f32, tokens: n / 2, dim: channels)), sequences)
    }
    var (a, b) = (Maker(metal, seed: 3), Maker(cpu, seed: 3))
    #expect(metal.run(try build(&a)) == nil)
    #expect(cpu.run(try build(&b)) == nil)
    #expect(distance(a, b) < 2e-6)
  }

  @Test func moreGatesThanAKernelCounts() throws {
    let backend = try Devices.backend()
    let memory = try backend.allocate(byteCount: 16384)
    // Rows that overlap: a small tensor of very many tokens.
    func op(_ tokens: Int) -> Op {
      let view = TensorView(memory: memory, offset: 0, dtype: .f32, tokenStride: 8, headStride: 8)
      return .gatedDelta(
        GatedDelta(
          tokens: tokens, keyHeads: 1, valueHeads: 1, keyDim: 256, valueDim: 8, slots: 0,
          options: .init(gateForm: .log, gateDims: .perKey, qkNorm: .l2, scale: 1, gateBound: 0), query: view,
          key: view, value: view, gate: view, beta: view, raw: nil, state: nil, out: view),
        Sequences(count: 0, starts: [0], readSlots: [], writeSlots: [], stagedReads: []))
    }
    #expect(throws: Never.self) { try backend.check(op(1 << 23)) }
    #expect { try backend.check(op(1 << 24)) } throws: { error in
      (error as? Failure)?.code == .unsupported && (error as? Failure)?.argument == "gate"
    }
  }

  /// Nothing to do, in every way that is legal.
  @Test func emptyOps() throws {
    let backend = try Devices.backend()
    var maker = Maker(backend, seed: 4)
    let none = Sequences(count: 0, starts: [0], readSlots: [], writeSlots: [], stagedReads: [])
    let drop = Sequences(count: 1, starts: [0, 0], readSlots: [-1], writeSlots: [-1], stagedReads: [])
    // Tensors of no rows, at their memory's very end.
    let memory = try backend.allocate(byteCount: 16384)
    let empty = TensorView(memory: memory, offset: 16384, dtype: .f32, tokenStride: 8, headStride: 8)
    let weight = try maker.tensor(.f32, tokens: 8, dim: 8, strided: false)
    func delta(_ algorithm: Algorithm) -> GatedDelta {
      GatedDelta(
        tokens: 0, keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8, slots: 0,
        options: .init(gateForm: .log, qkNorm: .l2, algorithm: algorithm, scale: 1, gateBound: 0), query: empty,
        key: empty, value: empty, gate: empty, beta: empty, raw: nil, state: nil, out: empty)
    }
    let conv = CausalConv1d(
      tokens: 0, channels: 8, width: 4, slots: 0, options: .init(activation: .none), x: empty, weight: weight,
      bias: nil, state: nil, out: empty)
    let failure = backend.run(
      .gatedDelta(delta(.auto), none), .gatedDelta(delta(.auto), drop),
      .causalConv1d(conv, none), .causalConv1d(conv, drop),
      .copySlots(CopySlots(slots: 0, slotElements: .max, pool: empty), drop),
      .linear(Linear(rows: 0, inFeatures: 8, outFeatures: 8, x: empty, weight: weight, out: empty)),
      .gatedRMSNorm(
        GatedRMSNorm(
          tokens: 0, heads: 1, dim: 8, options: .init(), x: empty, z: empty, weight: weight, out: empty)))
    #expect(failure == nil)
    #expect(backend.run() == nil)
  }
}

#if os(Linux)
  extension OpTests {
    /// A prefill that is several dispatches, over command buffers of their own, with states carried between them.
    @Test(arguments: UInt64(0)..<6) func aLongPrefillInParts(_ seed: UInt64) throws {
      let whole = try MetalBackend(device: Devices.emulated())
      let cut = try MetalBackend(device: Devices.emulated())
      cut.workLimit.fix(1)
      var (a, b) = (Maker(whole, seed: seed), Maker(cut, seed: seed))
      let lengths = [[33], [40, 0, 17], [9, 64, 23]][Int(seed) % 3]
      #expect(whole.run(try a.gatedDelta(algorithm: .recurrent, lengths: lengths)) == nil)
      #expect(cut.run(try b.gatedDelta(algorithm: .recurrent, lengths: lengths)) == nil)
      for (x, y) in zip(a.outputs, b.outputs) { #expect(x.memory.bytes.elementsEqual(y.memory.bytes)) }
    }

    /// The kernels for short and for long sequences give equal bits: which one runs is the host's to choose.
    @Test func equalBitsWhateverTheGPUTakes() throws {
      var few = EmulatedSettings()
      few.maxThreads = ["gd_prefill": 128, "gd_step": 96]
      few.order = .reverse
      let (wide, narrow) = (
        try MetalBackend(device: Devices.emulated()), try MetalBackend(device: Devices.emulated(few))
      )
      for (kind, seeds) in [(0, UInt64(0)..<8), (3, UInt64(0)..<4)] {
        for seed in seeds {
          var (a, b) = (Maker(wide, seed: seed), Maker(narrow, seed: seed))
          #expect(wide.run(try a.op(kind)) == nil)
          #expect(narrow.run(try b.op(kind)) == nil)
          for (x, y) in zip(a.outputs, b.outputs) {
            #expect(x.memory.bytes.elementsEqual(y.memory.bytes), "\(Self.names[kind]) \(seed)")
          }
        }
      }
    }
  }
#endif
