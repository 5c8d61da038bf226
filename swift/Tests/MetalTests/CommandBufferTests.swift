import Glibc
import Synchronization
import Testing

@testable import Metal

/// The order in which calls are allowed, and in which work runs.
@Suite struct CommandBufferTests {
  @Test func encodersAfterTheirEnd() throws {
    let rig = try Rig()
    let call = try rig.call()
    for (name, use) in [
      ("setComputePipelineState", { $0.setComputePipelineState(call.pipeline) }),
      ("setBuffer", { $0.setBuffer(nil, offset: 0, index: 0) }),
      (
        "setBytes",
        {
          var byte: UInt8 = 0; $0.setBytes(&byte, length: 1, index: 0)
        }
      ),
      ("setThreadgroupMemoryLength", { $0.setThreadgroupMemoryLength(16, index: 0) }),
      ("memoryBarrier", { $0.memoryBarrier(scope: .buffers) }), ("endEncoding", { $0.endEncoding() }),
      ("dispatchThreadgroups", { $0.dispatchThreadgroups(call.groups, threadsPerThreadgroup: call.threads) }),
    ] as [(String, (any MTLComputeCommandEncoder) -> Void)] {
      let commandBuffer = try #require(rig.queue.makeCommandBuffer())
      let encoder = try #require(commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent))
      encoder.endEncoding()
      use(encoder)
      commandBuffer.commit()
      commandBuffer.waitUntilCompleted()
      #expect(commandBuffer.error.map { "\($0)" } == "\(name) after endEncoding")
    }
  }

  @Test func anEncoderThatIsNotEnded() throws {
    let rig = try Rig()
    let open = try #require(rig.queue.makeCommandBuffer())
    let encoder = open.makeComputeCommandEncoder(dispatchType: .concurrent)
    open.commit()
    open.waitUntilCompleted()
    #expect(open.error.map { "\($0)" } == "commit before endEncoding")
    #expect(encoder != nil)

    let dropped = try #require(rig.queue.makeCommandBuffer())
    _ = dropped.makeComputeCommandEncoder(dispatchType: .concurrent)
    #expect(dropped.error.map { "\($0)" } == "an encoder was released before endEncoding")
  }

  @Test func oneEncoderAtATime() throws {
    let rig = try Rig()
    let commandBuffer = try #require(rig.queue.makeCommandBuffer())
    let first = try #require(commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent))
    #expect(commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent) == nil)
    #expect(commandBuffer.error.map { "\($0)" } == "a second encoder was asked for before endEncoding")
    first.endEncoding()

    let two = try #require(rig.queue.makeCommandBuffer())
    for _ in 0..<2 { try #require(two.makeComputeCommandEncoder(dispatchType: .serial)).endEncoding() }
    two.commit()
    two.waitUntilCompleted()
    #expect(two.status == .completed && two.error == nil)
  }

  @Test func afterCommit() throws {
    let rig = try Rig()
    func committed() throws -> any MTLCommandBuffer {
      let commandBuffer = try #require(rig.queue.makeCommandBuffer())
      commandBuffer.commit()
      commandBuffer.waitUntilCompleted()
      #expect(commandBuffer.error == nil)
      return commandBuffer
    }
    let twice = try committed()
    twice.commit()
    #expect(twice.error.map { "\($0)" } == "a second commit")
    let late = try committed()
    late.addCompletedHandler { _ in Issue.record("a handler that came after commit was called") }
    #expect(late.error.map { "\($0)" } == "addCompletedHandler after commit")
    let more = try committed()
    #expect(more.makeComputeCommandEncoder(dispatchType: .serial) == nil)
    #expect(more.error.map { "\($0)" } == "an encoder was asked for after commit")
    let early = try #require(rig.queue.makeCommandBuffer())
    early.waitUntilCompleted()
    #expect(early.error.map { "\($0)" } == "waitUntilCompleted before commit")
  }

  @Test func aDispatchWithoutAPipeline() throws {
    let rig = try Rig()
    let size = MTLSize(width: 1, height: 1, depth: 1)
    #expect(
      try rig.run { $0.dispatchThreadgroups(size, threadsPerThreadgroup: size) } == "a dispatch without a pipeline")
  }

  /// The first call writes what the second reads.
  func chain(_ rig: Rig) throws -> (Rig.Call, Rig.Call) {
    let first = try rig.call()
    var second = try rig.call()
    second.input = first.output
    return (first, second)
  }

  @Test func aBarrierThatIsMissing() throws {
    let rig = try Rig()
    let (first, second) = try chain(rig)
    #expect(
      try rig.run {
        first.encode($0); second.encode($0)
      } == "plain: buffer 0 is shared")
    #expect(
      try rig.run {
        first.encode($0); $0.memoryBarrier(scope: .buffers); second.encode($0)
      } == nil)
    #expect(second.output?.first == 44)
    #expect(
      try rig.run(.serial) {
        first.encode($0); second.encode($0)
      } == nil)
  }

  /// Arguments that begin at different places share memory if one's buffer reaches the other's start.
  @Test func aBarrierThatIsMissingBetweenOverlappingRanges() throws {
    let rig = try Rig()
    var (first, second) = try chain(rig)
    second.inputOffset = 8192
    #expect(try rig.run { first.encode($0); second.encode($0) } == "plain: buffer 0 is shared")
    (first.outputOffset, second.inputOffset) = (8192, 4)
    #expect(try rig.run { first.encode($0); second.encode($0) } == "plain: buffer 0 is shared")
    // The other way round: what is read first is written then.
    #expect(try rig.run { second.encode($0); first.encode($0) } == "plain: buffer 1 is shared")
  }

  @Test func aBarrierThatIsMissingThroughTwoBuffers() throws {
    let rig = try Rig()
    var (first, second) = try chain(rig)
    first.output = rig.device.makeBuffer(bytesNoCopy: try #require(second.input).contents(), length: 16384)
    #expect(
      try rig.run {
        first.encode($0); second.encode($0)
      }?.contains("is shared") == true)
    // Two that only read it may run together.
    var third = try rig.call()
    third.input = second.input
    #expect(
      try rig.run {
        second.encode($0); third.encode($0)
      } == nil)
  }

  /// Objects that a command buffer does not retain must be kept alive elsewhere until it has run.
  @Test func aBufferThatNobodyKeeps() throws {
    var settings = EmulatedDevice.Settings()
    settings.delay = 20_000
    let rig = try Rig(settings)
    func run(_ commandBuffer: (any MTLCommandBuffer)?) throws -> String? {
      let commandBuffer = try #require(commandBuffer)
      let encoder = try #require(commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent))
      var call: Rig.Call? = try rig.call()
      call?.encode(encoder)
      encoder.endEncoding()
      commandBuffer.commit()
      call = nil
      commandBuffer.waitUntilCompleted()
      return commandBuffer.error.map { "\($0)" }
    }
    #expect(try run(rig.queue.makeCommandBuffer()) == nil)
    #expect(
      try run(rig.queue.makeCommandBufferWithUnretainedReferences())?.contains(
        "was released before the command buffer had completed") == true)
  }

  /// Memory stays in a set until a commit after its removal.
  @Test func residencySetsKeepWhatTheyHold() throws {
    let rig = try Rig()
    let made = try rig.device.makeResidencySet(descriptor: MTLResidencySetDescriptor())
    let set = try #require(made as? EmulatedResidencySet)
    rig.queue.addResidencySet(set)
    weak var kept: (any MTLBuffer)?
    do {
      let buffer = try rig.buffer(1)
      kept = buffer
      set.addAllocation(buffer)
      #expect(set.containsAllocation(buffer) && !set.holds(buffer))
      set.commit()
      #expect(set.holds(buffer))
      set.removeAllocation(buffer)
      #expect(!set.containsAllocation(buffer) && set.holds(buffer))
    }
    #expect(kept != nil)
    set.commit()
    #expect(kept == nil && set.counts == (0, 0, 2))
  }

  @Test func timesOfTheGPU() throws {
    let rig = try Rig()
    let commandBuffer = try #require(rig.queue.makeCommandBuffer())
    #expect(commandBuffer.gpuStartTime == 0 && commandBuffer.gpuEndTime == 0)
    commandBuffer.commit()
    commandBuffer.waitUntilCompleted()
    #expect(commandBuffer.gpuStartTime > 0 && commandBuffer.gpuEndTime >= commandBuffer.gpuStartTime)
  }

  @Test func callsAreCounted() throws {
    let rig = try Rig()
    let call = try rig.call()
    let commandBuffer = try #require(rig.queue.makeCommandBuffer() as? EmulatedCommandBuffer)
    for _ in 0..<2 {
      let encoder = try #require(commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent))
      call.encode(encoder)
      encoder.memoryBarrier(scope: .buffers)
      encoder.endEncoding()
    }
    #expect(
      commandBuffer.encoderCalls
        == EncoderCalls(dispatches: 2, barriers: 2, pipelines: 2, buffers: 4, bytes: 2, threadgroupMemory: 0))
    commandBuffer.commit()
    commandBuffer.waitUntilCompleted()
  }

  @Test func fences() throws {
    let rig = try Rig()
    let fence = try #require(rig.device.makeFence())
    #expect(
      try rig.run {
        $0.waitForFence(fence); $0.updateFence(fence)
      } == nil)
    #expect(
      try rig.run {
        $0.updateFence(fence); $0.waitForFence(fence)
      }
        == "waitForFence after updateFence of the same fence")
  }

  @Test func dispatchesWithoutABarrierRunInAnyOrder() throws {
    let rig = try Rig()
    let one = try rig.call()
    let group = [
      Dispatch(
        number: 1, pipeline: try #require(one.pipeline as? EmulatedPipeline), arguments: [], threadgroupBytes: [1],
        threadgroups: one.groups, threads: one.threads),
      Dispatch(
        number: 2, pipeline: try #require(one.pipeline as? EmulatedPipeline), arguments: [], threadgroupBytes: [2],
        threadgroups: one.groups, threads: one.threads),
    ]
    #expect(DispatchOrder("reverse").apply(group, salt: 0).map(\.threadgroupBytes) == [[2], [1]])
    #expect(DispatchOrder("").apply(group, salt: 0).map(\.threadgroupBytes) == [[1], [2]])
    let orders = (0..<64).map { DispatchOrder("random:1").apply(group, salt: $0).map(\.threadgroupBytes) }
    #expect(orders.contains([[1], [2]]) && orders.contains([[2], [1]]))
  }

  @Test func handlersRunOnAnotherThreadAndBeforeTheWaitEnds() throws {
    let rig = try Rig()
    let seen = Mutex<[(thread: pthread_t, status: MTLCommandBufferStatus)]>([])
    let commandBuffer = try #require(rig.queue.makeCommandBuffer())
    for _ in 0..<3 {
      commandBuffer.addCompletedHandler { commandBuffer in
        let status = commandBuffer.status
        seen.withLock { $0.append((pthread_self(), status)) }
      }
    }
    commandBuffer.commit()
    commandBuffer.waitUntilCompleted()
    let calls = seen.withLock { $0 }
    #expect(calls.count == 3)
    #expect(calls.allSatisfy { pthread_equal($0.thread, pthread_self()) == 0 && $0.status == .completed })
  }

  /// A handler that does not return holds up later work, so that the state before it can be examined.
  @Test func nothingRunsAtCommit() throws {
    var settings = EmulatedDevice.Settings()
    settings.delay = 100
    let rig = try Rig(settings)
    let call = try rig.call()
    let gate = Condition()
    let isOpen = Mutex(false)
    let first = try #require(rig.queue.makeCommandBuffer())
    first.addCompletedHandler { _ in gate.locked(when: { isOpen.withLock { $0 } }) {} }
    first.commit()
    let second = try #require(rig.queue.makeCommandBuffer())
    let encoder = try #require(second.makeComputeCommandEncoder(dispatchType: .concurrent))
    call.encode(encoder)
    encoder.endEncoding()
    second.commit()
    #expect(call.output?.first == 0 && second.status == .committed)
    gate.change { isOpen.withLock { $0 = true } }
    second.waitUntilCompleted()
    #expect(call.output?.first == 42)
  }

  @Test func memoryLivesUntilItsCommandBufferIsDone() throws {
    let rig = try Rig()
    let memory = UnsafeMutableRawPointer.allocate(byteCount: 16384, alignment: 16384)
    defer { memory.deallocate() }
    memory.storeBytes(of: 8, as: UInt32.self)
    let result = try rig.buffer(0)
    let commandBuffer = try #require(rig.queue.makeCommandBuffer())
    try encode(rig, borrowing: memory, result, commandBuffer)
    // Nothing here holds the borrowing buffer any more.
    let early = memoryWasFreed.load(ordering: .acquiring)
    #expect(!early)
    commandBuffer.commit()
    commandBuffer.waitUntilCompleted()
    #expect(result.first == 10)
    let late = memoryWasFreed.load(ordering: .acquiring)
    #expect(late)
  }

  private func encode(
    _ rig: Rig, borrowing memory: UnsafeMutableRawPointer, _ result: any MTLBuffer,
    _ commandBuffer: any MTLCommandBuffer
  ) throws {
    var call = try rig.call()
    call.input = rig.device.makeBuffer(bytesNoCopy: memory, length: 16384) { _, _ in
      memoryWasFreed.store(true, ordering: .releasing)
    }
    call.output = result
    let encoder = try #require(commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent))
    call.encode(encoder)
    encoder.endEncoding()
  }

  @Test func commandBuffersRunInOrder() throws {
    let rig = try Rig()
    let total = try rig.buffer(0)
    let (ping, pong) = (try rig.call(), try rig.call())
    var commandBuffers: [any MTLCommandBuffer] = []
    for step in 0..<50 {
      var call = step % 2 == 0 ? ping : pong
      call.input = step == 0 ? total : (step % 2 == 0 ? pong : ping).output
      call.params.term = 1
      let commandBuffer = try #require(rig.queue.makeCommandBuffer())
      let encoder = try #require(commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent))
      call.encode(encoder)
      encoder.endEncoding()
      commandBuffer.commit()
      commandBuffers.append(commandBuffer)
    }
    commandBuffers.last?.waitUntilCompleted()
    #expect(pong.output?.first == 50)
  }

  @Test func aQueueGivesAsManyCommandBuffersAsItHas() throws {
    let rig = try Rig(inFlight: 2)
    // Dropped ones do not count; committed ones count until they have completed.
    for _ in 0..<10 { #expect(rig.queue.makeCommandBuffer() != nil) }
    for _ in 0..<10 {
      let commandBuffer = try #require(rig.queue.makeCommandBuffer())
      commandBuffer.commit()
    }
    #expect(rig.device.makeCommandQueue(maxCommandBufferCount: 0) == nil)
  }

  @Test func aFailureThatTheGPUReports() throws {
    let rig = try Rig()
    rig.queue.failNext(.accessRevoked)
    let commandBuffer = try #require(rig.queue.makeCommandBuffer())
    commandBuffer.commit()
    commandBuffer.waitUntilCompleted()
    #expect(commandBuffer.status == .error)
    #expect((commandBuffer.error as? MTLCommandBufferError)?.code == .accessRevoked)
    #expect(try rig.run(rig.call()) == nil)
  }
}

private let memoryWasFreed = Atomic<Bool>(false)
