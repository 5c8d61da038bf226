import GatedDeltaTypes
import Testing

@testable import MetalBackend

#if os(Linux)
  @testable import Metal

  /// Missing barriers, which the emulation finds by the memory that dispatches touch. A pass knows only its own dispatches, so two
  /// passes on one encoder leave out the barrier between them.
  @Suite(.enabled(if: Devices.haveKernels, "there is no translated shader library"))
  struct BarrierTests {
    static let dim = 64

    /// out = x + y, over rows at these bytes of one buffer.
    func sum(_ memory: Memory, rows: Int, x: Int, y: Int, out: Int) -> Op {
      func view(_ offset: Int) -> TensorView {
        TensorView(memory: memory, offset: offset, dtype: .f32, tokenStride: Self.dim, headStride: Self.dim)
      }
      return .elementwise(
        Elementwise(
          .add, tokens: rows, heads: 1, dim: Self.dim, a: view(x), b: view(y), out: view(out), replacesA: false,
          replacesB: false))
    }

    /// The failure of the command buffer of two ops, nil if there is none.
    func run(_ first: Op, _ second: Op, _ backend: MetalBackend, together: Bool = false, barrier: Bool = false) throws -> String? {
      let commandBuffer = try #require(backend.queue.makeCommandBuffer())
      let encoder = try #require(commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent))
      var pass = Pass(device: backend, encoder: encoder, arena: Arena(pool: backend.arenas))
      try pass.encode(first)
      if !together { pass = Pass(device: backend, encoder: encoder, arena: pass.arena) }
      if barrier { encoder.memoryBarrier(scope: .buffers) }
      try pass.encode(second)
      encoder.endEncoding()
      commandBuffer.commit()
      commandBuffer.waitUntilCompleted()
      return commandBuffer.error.map { "\($0)" }
    }

    static let row = dim * 4
    static let mib = 1_048_576
    typealias Place = (first: Int, second: Int, writes: Int, fails: Bool)
    /// Rows of 256 bytes in 4 MiB: the rows that the first op writes, and those that the second reads and writes. As arguments of the
    /// test without a type of their own they would take the compiler half a minute.
    static let places: [Place] = [
      (first: 0, second: 0, writes: 4096, fails: true),  // equal starts
      (first: 0, second: row, writes: 4096, fails: true),  // the second row of it
      (first: row, second: 0, writes: 4096, fails: true),
      (first: 2 * mib, second: 2 * mib + row, writes: 4096, fails: true),  // far inside
      (first: 0, second: 4 * row, writes: 4096, fails: false),  // neighbours
      (first: 4 * row, second: 0, writes: 4096, fails: false),
      (first: 0, second: 65536, writes: 2 * row, fails: true),  // two writes
      (first: 0, second: 65536, writes: 3 * mib, fails: true),  // the second writes rows that the first reads
      (first: 0, second: 65536, writes: 3 * mib + 4 * row, fails: false),
    ]
    @Test(arguments: places)
    func isFound(_ at: Place) throws {
      let backend = try MetalBackend(device: Devices.emulated())
      let memory = try backend.allocate(byteCount: 4 << 20)
      let first = sum(memory, rows: 4, x: 3 << 20, y: 3 << 20, out: at.first)
      let second = sum(memory, rows: 4, x: at.second, y: at.second, out: at.writes)
      let problem = try run(first, second, backend)
      if at.fails {
        #expect(problem?.contains("there is no barrier between the two dispatches") == true, "\(problem ?? "nothing")")
        #expect(problem?.contains("shaders/elementwise.metal:") == true)
      } else {
        #expect(problem == nil)
      }
      #expect(try run(first, second, backend, barrier: true) == nil)
      #expect(try run(first, second, backend, together: true) == nil)
    }

    @Test func ofWhatOtherBuffersLieOver() throws {
      let backend = try MetalBackend(device: Devices.emulated())
      let memory = try backend.allocate(byteCount: 2 << 20)
      let again = try backend.wrap(pointer: memory.pointer, byteCount: 2 << 20)
      let first = sum(memory, rows: 4, x: 65536, y: 65536, out: 1 << 20 + Self.row)
      #expect(try run(first, sum(again, rows: 4, x: 1 << 20, y: 1 << 20, out: 0), backend)?.contains("no barrier") == true)
      #expect(try run(first, sum(again, rows: 1, x: 1 << 20, y: 1 << 20, out: 0), backend) == nil)
    }
  }
#endif
