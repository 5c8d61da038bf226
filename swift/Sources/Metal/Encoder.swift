/// Records dispatches and asserts what Metal's debug layer would: the first misuse fails the command buffer.
final class EmulatedEncoder: MTLComputeCommandEncoder {
  static let slots = 31
  static let setBytesLimit = 4096

  private let commandBuffer: EmulatedCommandBuffer
  private let device: EmulatedDevice
  private let dispatchType: MTLDispatchType
  private var pipeline: EmulatedPipeline?
  private var bound: [Dispatch.Value?] = Array(repeating: nil, count: slots)
  /// Indices that were set since the last dispatch.
  private var fresh: Set<Int> = []
  private var threadgroupBytes: [UInt32] = []
  private var updatedFences: [EmulatedFence] = []
  private var calls = EncoderCalls()
  private var ended = false

  init(commandBuffer: EmulatedCommandBuffer, dispatchType: MTLDispatchType) {
    self.commandBuffer = commandBuffer
    device = commandBuffer.queue.device
    self.dispatchType = dispatchType
    commandBuffer.beginGroup()
  }

  deinit {
    if !ended { misuse("an encoder was released before endEncoding") }
  }

  private func misuse(_ what: String) {
    let kernel = pipeline.map { $0.function.name + ": " } ?? ""
    commandBuffer.fault(kernel + what)
  }

  private func open(_ call: StaticString) -> Bool {
    if ended { misuse("\(call) after endEncoding") }
    return !ended
  }

  func setComputePipelineState(_ state: any MTLComputePipelineState) {
    calls.pipelines += 1
    HostWork.without {
      guard open("setComputePipelineState") else { return }
      guard let state = state as? EmulatedPipeline, state.function.device === device else {
        return misuse("a pipeline of another device")
      }
      pipeline = state
    }
  }

  func setBuffer(_ buffer: (any MTLBuffer)?, offset: Int, index: Int) {
    calls.buffers += 1
    HostWork.without {
      guard open("setBuffer"), checkIndex(index) else { return }
      guard let buffer else {
        bound[index] = nil
        return
      }
      fresh.insert(index)
      guard let buffer = buffer as? EmulatedBuffer, buffer.device === device else {
        return misuse("\(describe(index)) is of another device")
      }
      guard offset >= 0, offset < buffer.length else {
        return misuse("\(describe(index)): offset \(offset) is outside its \(buffer.length) bytes")
      }
      bound[index] = .buffer(BufferReference(buffer, keeps: commandBuffer.retainsBuffers), offset: offset)
    }
  }

  func setBytes(_ bytes: UnsafeRawPointer, length: Int, index: Int) {
    calls.bytes += 1
    HostWork.without {
      guard open("setBytes"), checkIndex(index) else { return }
      guard length > 0, length < Self.setBytesLimit else {
        return misuse("\(describe(index)): setBytes of \(length) bytes, which must be fewer than \(Self.setBytesLimit)")
      }
      fresh.insert(index)
      bound[index] = .bytes([UInt8](UnsafeRawBufferPointer(start: bytes, count: length)))
    }
  }

  func setThreadgroupMemoryLength(_ length: Int, index: Int) {
    calls.threadgroupMemory += 1
    HostWork.without {
      guard open("setThreadgroupMemoryLength"), checkIndex(index) else { return }
      guard length > 0, length % 16 == 0, length <= device.maxThreadgroupMemoryLength else {
        return misuse(
          "threadgroup memory \(index): \(length) bytes, which must be a multiple of 16 up to "
            + "\(device.maxThreadgroupMemoryLength)")
      }
      while threadgroupBytes.count <= index { threadgroupBytes.append(0) }
      threadgroupBytes[index] = UInt32(length)
    }
  }

  func memoryBarrier(scope: MTLBarrierScope) {
    calls.barriers += 1
    HostWork.without {
      guard open("memoryBarrier") else { return }
      guard scope == .buffers else { return misuse("a memory barrier of scope \(scope.rawValue)") }
      commandBuffer.beginGroup()
    }
  }

  func updateFence(_ fence: any MTLFence) {
    HostWork.without {
      guard open("updateFence") else { return }
      guard let fence = fence as? EmulatedFence, fence.device === device else {
        return misuse("a fence of another device")
      }
      updatedFences.append(fence)
    }
  }

  func waitForFence(_ fence: any MTLFence) {
    HostWork.without {
      guard open("waitForFence") else { return }
      guard let fence = fence as? EmulatedFence, fence.device === device else {
        return misuse("a fence of another device")
      }
      // A pass would wait for itself.
      if updatedFences.contains(where: { $0 === fence }) { misuse("waitForFence after updateFence of the same fence") }
    }
  }

  func dispatchThreadgroups(_ threadgroupsPerGrid: MTLSize, threadsPerThreadgroup: MTLSize) {
    calls.dispatches += 1
    HostWork.without {
      guard open("dispatchThreadgroups") else { return }
      guard let pipeline else { return misuse("a dispatch without a pipeline") }
      guard checkGrid(threadgroupsPerGrid, threadsPerThreadgroup, pipeline), checkThreadgroupMemory(pipeline),
        let arguments = arguments(of: pipeline)
      else { return }
      if dispatchType == .serial { commandBuffer.beginGroup() }
      commandBuffer.append(
        Dispatch(
          number: commandBuffer.nextNumber(), pipeline: pipeline, arguments: arguments,
          threadgroupBytes: threadgroupBytes,
          threadgroups: threadgroupsPerGrid, threads: threadsPerThreadgroup))
    }
  }

  func endEncoding() {
    HostWork.without {
      guard open("endEncoding") else { return }
      ended = true
      commandBuffer.encoderEnded(calls)
    }
  }
}

/// The checks of a dispatch.
extension EmulatedEncoder {
  private func describe(_ index: Int) -> String { pipeline?.describe(index) ?? "buffer \(index)" }

  private func checkIndex(_ index: Int) -> Bool {
    let inside = index >= 0 && index < Self.slots
    if !inside { misuse("argument index \(index), the last is \(Self.slots - 1)") }
    return inside
  }

  /// Nil after a misuse.
  private func arguments(of pipeline: EmulatedPipeline) -> [Dispatch.Argument]? {
    var arguments: [Dispatch.Argument] = []
    // Metal lets this pass, but a host that counts its arguments differently from the kernel is wrong.
    if let kernel = pipeline.reflection, let unknown = fresh.filter({ kernel.buffers[$0] == nil }).min() {
      misuse("buffer \(unknown) is set, but the kernel has no such argument")
      return nil
    }
    fresh.removeAll(keepingCapacity: true)
    for index in 0..<Self.slots where pipeline.uses(index) {
      guard let value = bound[index] else {
        misuse("\(describe(index)) is not bound")
        return nil
      }
      let argument = Dispatch.Argument(index: index, value: value, isWritten: pipeline.writes(index))
      guard checkValue(argument, pipeline) else { return nil }
      // Kernel arguments must not overlap if one is written. Only the kernel knows where they end, so only a
      // common start is certain here; the emulator compares the memory that is touched.
      for other in arguments where (other.isWritten || argument.isWritten) && argument.address != nil {
        if other.address == argument.address {
          misuse("\(describe(other.index)) and \(describe(index)) overlap, and one of them is written")
          return nil
        }
      }
      arguments.append(argument)
    }
    return arguments
  }

  private func checkValue(_ argument: Dispatch.Argument, _ pipeline: EmulatedPipeline) -> Bool {
    let expected = pipeline.reflection?.buffers[argument.index]
    let available: Int
    switch argument.value {
    case .bytes(let bytes):
      if argument.isWritten {
        misuse("\(describe(argument.index)) is written, but set by setBytes")
        return false
      }
      available = bytes.count
    case .buffer(let reference, let offset):
      guard let buffer = reference.buffer else {
        misuse("\(describe(argument.index)) was released before it was used")
        return false
      }
      if let expected, offset % expected.alignment != 0 {
        misuse("\(describe(argument.index)): offset \(offset) is not a multiple of \(expected.alignment)")
        return false
      }
      available = buffer.length - offset
    }
    // The host's structure must be the one that the kernel reads: more bytes are as wrong as fewer.
    if case .bytes = argument.value, let expected, expected.isReference, available != expected.byteCount {
      misuse("\(describe(argument.index)): \(available) bytes of setBytes for \(expected.byteCount)")
      return false
    }
    if let expected, expected.isReference, available < expected.byteCount {
      misuse("\(describe(argument.index)): \(available) bytes of the \(expected.byteCount) that it refers to")
      return false
    }
    return true
  }

  private func checkGrid(_ groups: MTLSize, _ threads: MTLSize, _ pipeline: EmulatedPipeline) -> Bool {
    let (g, t) = ([groups.width, groups.height, groups.depth], [threads.width, threads.height, threads.depth])
    // Positions in the grid are 32-bit numbers.
    let fits = zip(g, t).allSatisfy { groups, threads in
      guard groups > 0, threads > 0 else { return false }
      let (product, overflow) = groups.multipliedReportingOverflow(by: threads)
      return !overflow && product <= Int(UInt32.max)
    }
    guard fits else {
      misuse("a grid of \(g) threadgroups of \(t) threads")
      return false
    }
    let total = t.reduce((1, false)) { total, n in
      let (product, overflow) = total.0.multipliedReportingOverflow(by: n)
      return (product, total.1 || overflow)
    }
    if total.1 || total.0 > pipeline.maxTotalThreadsPerThreadgroup {
      misuse("\(t) threads in a threadgroup, the limit is \(pipeline.maxTotalThreadsPerThreadgroup)")
      return false
    }
    return true
  }

  private func checkThreadgroupMemory(_ pipeline: EmulatedPipeline) -> Bool {
    for (index, name) in pipeline.reflection?.threadgroups ?? [:] {
      guard index < threadgroupBytes.count, threadgroupBytes[index] > 0 else {
        misuse("threadgroup memory \(index) (\(name)) has no length")
        return false
      }
    }
    // Settings of earlier dispatches remain.
    let memory = threadgroupBytes.reduce(pipeline.staticThreadgroupMemoryLength) { $0 + Int($1) }
    if memory > device.maxThreadgroupMemoryLength {
      misuse("\(memory) bytes of threadgroup memory, the limit is \(device.maxThreadgroupMemoryLength)")
      return false
    }
    return true
  }
}
