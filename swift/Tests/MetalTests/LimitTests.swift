import Testing

@testable import Metal

/// Metal's limits, each broken once: an error that names the kernel and the argument.
@Suite struct LimitTests {
  @Test func aDispatchWithNothingWrongRuns() throws {
    let rig = try Rig()
    let call = try rig.call()
    #expect(try rig.run(call) == nil)
    #expect(call.output?.first == 42)
  }

  @Test(arguments: [31, 64, -1, Int.max]) func argumentIndex(_ index: Int) throws {
    let rig = try Rig()
    let (pipeline, buffer) = (try rig.pipeline(), try rig.buffer(1))
    let message = "plain: argument index \(index), the last is 30"
    #expect(
      try rig.run {
        $0.setComputePipelineState(pipeline); $0.setBuffer(buffer, offset: 0, index: index)
      } == message)
    var byte: UInt8 = 0
    #expect(
      try rig.run {
        $0.setComputePipelineState(pipeline); $0.setBytes(&byte, length: 1, index: index)
      } == message)
  }

  @Test func theLastArgumentIndexIsLegal() throws {
    let rig = try Rig()
    let (call, buffer) = (try rig.call(), try rig.buffer(1))
    #expect(
      try rig.run {
        call.encode($0); $0.setBuffer(buffer, offset: 0, index: 30)
      } == nil)
  }

  @Test(arguments: [(0, true), (4095, false), (4096, true), (100_000, true)])
  func bytesOfSetBytes(_ length: Int, _ isWrong: Bool) throws {
    let rig = try Rig()
    let call = try rig.call()
    let bytes = [UInt8](repeating: 0, count: 100_000)
    let problem = try rig.run { encoder in
      encoder.setComputePipelineState(call.pipeline)
      encoder.setBytes(bytes, length: length, index: 2)
    }
    #expect(
      problem
        == (isWrong ? "plain: buffer 2 (params): setBytes of \(length) bytes, which must be fewer than 4096" : nil))
  }

  @Test(arguments: [4, 7, 9, 64]) func otherBytesThanTheKernelRefersTo(_ bytes: Int) throws {
    let rig = try Rig()
    let call = try rig.call()
    let params = [UInt8](repeating: 0, count: 64)
    let problem = try rig.run { encoder in
      call.encode(encoder)
      encoder.setBytes(params, length: bytes, index: 2)
      encoder.dispatchThreadgroups(call.groups, threadsPerThreadgroup: call.threads)
    }
    #expect(problem == "plain: buffer 2 (params): \(bytes) bytes of setBytes for 8")
  }

  @Test func aBufferThatIsShorterThanWhatTheKernelRefersTo() throws {
    let rig = try Rig()
    let call = try rig.call()
    let buffer = try rig.buffer(1)
    let problem = try rig.run { encoder in
      call.encode(encoder)
      encoder.setBuffer(buffer, offset: 16380, index: 2)
      encoder.dispatchThreadgroups(call.groups, threadsPerThreadgroup: call.threads)
    }
    #expect(problem == "plain: buffer 2 (params): 4 bytes of the 8 that it refers to")
  }

  @Test func anArgumentThatTheKernelDoesNotHave() throws {
    let rig = try Rig()
    let (call, buffer) = (try rig.call(), try rig.buffer(1))
    #expect(
      try rig.run {
        $0.setBuffer(buffer, offset: 0, index: 3); call.encode($0)
      } == "plain: buffer 3 is set, but the kernel has no such argument")
  }

  @Test func aBindingThatIsMissing() throws {
    let rig = try Rig()
    var call = try rig.call()
    call.input = nil
    #expect(try rig.run(call) == "plain: buffer 0 (input) is not bound")
  }

  @Test func setBytesForAnArgumentThatIsWritten() throws {
    let rig = try Rig()
    let call = try rig.call()
    var value: UInt32 = 0
    let problem = try rig.run { encoder in
      encoder.setComputePipelineState(call.pipeline)
      encoder.setBuffer(call.input, offset: 0, index: 0)
      encoder.setBytes(&value, length: 4, index: 1)
      encoder.setBytes(&value, length: 4, index: 2)
      encoder.dispatchThreadgroups(call.groups, threadsPerThreadgroup: call.threads)
    }
    #expect(problem == "plain: buffer 1 (output) is written, but set by setBytes")
  }

  @Test(arguments: [16384, 16388, -4, Int.max]) func anOffsetOutsideItsBuffer(_ offset: Int) throws {
    let rig = try Rig()
    var call = try rig.call()
    call.inputOffset = offset
    #expect(try rig.run(call) == "plain: buffer 0 (input): offset \(offset) is outside its 16384 bytes")
  }

  @Test func anOffsetThatIsNotAligned() throws {
    let rig = try Rig()
    var call = try rig.call()
    call.outputOffset = 2
    #expect(try rig.run(call) == "plain: buffer 1 (output): offset 2 is not a multiple of 4")
  }

  @Test func argumentsThatOverlap() throws {
    let rig = try Rig()
    var call = try rig.call()
    call.output = call.input
    #expect(try rig.run(call) == "plain: buffer 0 (input) and buffer 1 (output) overlap, and one of them is written")
  }

  @Test func argumentsThatOverlapThroughTwoBuffers() throws {
    let rig = try Rig()
    var call = try rig.call()
    let alias = rig.device.makeBuffer(bytesNoCopy: try #require(call.input).contents(), length: 16384)
    call.output = try #require(alias)
    #expect(try rig.run(call) == "plain: buffer 0 (input) and buffer 1 (output) overlap, and one of them is written")
  }

  @Test func aBufferOfAnotherDevice() throws {
    let (rig, other) = (try Rig(), try Rig())
    var call = try rig.call()
    call.output = try other.buffer(0)
    #expect(try rig.run(call) == "plain: buffer 1 (output) is of another device")
  }

  @Test func aPipelineAndAFenceOfAnotherDevice() throws {
    let (rig, other) = (try Rig(), try Rig())
    let (pipeline, fence) = (try other.pipeline(), try #require(other.device.makeFence()))
    #expect(try rig.run { $0.setComputePipelineState(pipeline) } == "a pipeline of another device")
    #expect(try rig.run { $0.waitForFence(fence) } == "a fence of another device")
    let constants = MTLFunctionConstantValues()
    let function = try other.library.makeFunction(name: "wide", constantValues: constants)
    #expect(throws: MetalEmulationError.self) { try rig.device.makeComputePipelineState(function: function) }
  }

  @Test(arguments: [15, 17, 0, -16, 32784]) func threadgroupMemoryLength(_ length: Int) throws {
    let rig = try Rig()
    let pipeline = try rig.pipeline("add")
    let problem = try rig.run { encoder in
      encoder.setComputePipelineState(pipeline)
      encoder.setThreadgroupMemoryLength(length, index: 0)
    }
    #expect(problem == "add: threadgroup memory 0: \(length) bytes, which must be a multiple of 16 up to 32768")
  }

  @Test func threadgroupMemoryThatHasNoLength() throws {
    let rig = try Rig()
    #expect(try rig.run(rig.call("add")) == "add: threadgroup memory 0 (scratch) has no length")
  }

  /// Memory set for one dispatch still counts for the next, in addition to the arrays that a kernel declares.
  @Test func threadgroupMemoryTogether() throws {
    let rig = try Rig()
    let call = try rig.call("wide")
    #expect(
      try rig.run {
        $0.setThreadgroupMemoryLength(27648, index: 0); call.encode($0)
      } == nil)
    #expect(
      try rig.run {
        $0.setThreadgroupMemoryLength(27664, index: 0); call.encode($0)
      }
        == "wide: 32784 bytes of threadgroup memory, the limit is 32768")
  }

  @Test(arguments: [
    (MTLSize(width: 256, height: 1, depth: 1), true), (MTLSize(width: 8, height: 8, depth: 4), true),
    (MTLSize(width: 257, height: 1, depth: 1), false), (MTLSize(width: 16, height: 16, depth: 2), false),
    (MTLSize(width: 1 << 31, height: 1 << 31, depth: 4), false),
  ])
  func threadsBeyondThePipelines(_ threads: MTLSize, _ isLegal: Bool) throws {
    let rig = try Rig()
    var call = try rig.call("wide")
    call.threads = threads
    let (w, h, d) = (threads.width, threads.height, threads.depth)
    #expect(
      try rig.run(call)
        == (isLegal ? nil : "wide: [\(w), \(h), \(d)] threads in a threadgroup, the limit is 256"))
  }

  @Test func threadsBeyondALowerLimit() throws {
    var settings = EmulatedDevice.Settings()
    settings.maxThreads = ["": 384, "pl": 96]
    let rig = try Rig(settings)
    #expect(try rig.pipeline("plain").maxTotalThreadsPerThreadgroup == 96)
    #expect(try rig.pipeline("add").maxTotalThreadsPerThreadgroup == 384)
    #expect(try rig.pipeline("wide").maxTotalThreadsPerThreadgroup == 256)
    var call = try rig.call()
    call.threads.width = 128
    #expect(try rig.run(call) == "plain: [128, 1, 1] threads in a threadgroup, the limit is 96")
  }

  @Test(arguments: [
    MTLSize(width: 0, height: 1, depth: 1), MTLSize(width: 1, height: -1, depth: 1),
    MTLSize(width: 1 << 28, height: 1, depth: 1), MTLSize(width: 1, height: 1, depth: Int.max),
  ])
  func gridsThatAreNone(_ groups: MTLSize) throws {
    let rig = try Rig()
    var call = try rig.call()
    call.groups = groups
    let (w, h, d) = (groups.width, groups.height, groups.depth)
    #expect(try rig.run(call) == "plain: a grid of [\(w), \(h), \(d)] threadgroups of [32, 1, 1] threads")
  }

  @Test func noThreads() throws {
    let rig = try Rig()
    var call = try rig.call()
    call.threads.height = 0
    #expect(try rig.run(call) == "plain: a grid of [1, 1, 1] threadgroups of [32, 0, 1] threads")
  }

  @Test func noCopyOfWhatIsNotPages() throws {
    let rig = try Rig()
    let pages = try #require(rig.device.makeBuffer(length: 3 * 16384))
    let start = pages.contents()
    #expect(rig.device.makeBuffer(bytesNoCopy: start, length: 2 * 16384) != nil)
    #expect(rig.device.makeBuffer(bytesNoCopy: start + 4096, length: 16384) == nil)
    #expect(rig.device.makeBuffer(bytesNoCopy: start, length: 16384 + 4096) == nil)
    #expect(rig.device.makeBuffer(bytesNoCopy: start, length: 0) == nil)
    #expect(rig.device.makeBuffer(length: 0) == nil)
    #expect(rig.device.makeBuffer(length: rig.device.maxBufferLength + 1) == nil)
  }

  @Test func memoryIsZeroedAndOnAPage() throws {
    let rig = try Rig()
    let buffer = try #require(rig.device.makeBuffer(length: 20_000, options: .storageModeShared))
    #expect(buffer.length == 20_000 && UInt(bitPattern: buffer.contents()) % 16384 == 0)
    #expect(UnsafeRawBufferPointer(start: buffer.contents(), count: 20_000).allSatisfy { $0 == 0 })
  }

  @Test func whatTheKernelFindsIsNamed() throws {
    let rig = try Rig()
    var call = try rig.call()
    call.params.faults = 1
    #expect(try rig.run(call) == "plain: kernels.metal:7: a fault")
  }
}
