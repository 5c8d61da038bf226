import CEmulator

/// One dispatch as it was encoded: everything bound at that moment.
struct Dispatch: @unchecked Sendable {
  enum Argument: @unchecked Sendable {
    case buffer(EmulatedBuffer, offset: Int)
    case bytes([UInt8])
  }
  var pipeline: EmulatedPipeline
  /// In order of index.
  var arguments: [(index: Int, value: Argument)]
  var threadgroupBytes: [UInt32]
  var threadgroups: MTLSize
  var threads: MTLSize
}

/// Records dispatches and asserts what Metal's debug layer would: the first misuse fails the command buffer.
final class EmulatedEncoder: MTLComputeCommandEncoder {
  static let slots = 31

  var label: String?
  private unowned let commandBuffer: EmulatedCommandBuffer
  private let dispatchType: MTLDispatchType
  private var pipeline: EmulatedPipeline?
  private var bound: [Dispatch.Argument?] = Array(repeating: nil, count: slots)
  private var threadgroupBytes: [UInt32] = []
  private var ended = false

  init(commandBuffer: EmulatedCommandBuffer, dispatchType: MTLDispatchType) {
    self.commandBuffer = commandBuffer
    self.dispatchType = dispatchType
    commandBuffer.beginGroup()
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
    guard open("setComputePipelineState") else { return }
    guard let state = state as? EmulatedPipeline else { return misuse("a pipeline of another device") }
    pipeline = state
  }

  func setBuffer(_ buffer: (any MTLBuffer)?, offset: Int, index: Int) {
    guard open("setBuffer"), checkIndex(index) else { return }
    guard let buffer else {
      bound[index] = nil
      return
    }
    guard let buffer = buffer as? EmulatedBuffer else { return misuse("buffer \(index) is of another device") }
    guard offset >= 0, offset < buffer.length else {
      return misuse("buffer \(index): offset \(offset) is outside its \(buffer.length) bytes")
    }
    bound[index] = .buffer(buffer, offset: offset)
  }

  func setBytes(_ bytes: UnsafeRawPointer, length: Int, index: Int) {
    guard open("setBytes"), checkIndex(index) else { return }
    guard length > 0, length < 4096 else {
      return misuse("setBytes \(index): \(length) bytes, which must be fewer than 4096")
    }
    bound[index] = .bytes([UInt8](UnsafeRawBufferPointer(start: bytes, count: length)))
  }

  func setThreadgroupMemoryLength(_ length: Int, index: Int) {
    guard open("setThreadgroupMemoryLength"), checkIndex(index) else { return }
    guard length >= 0, length % 16 == 0, let bytes = UInt32(exactly: length) else {
      return misuse("threadgroup memory \(index): \(length) bytes are not a multiple of 16")
    }
    while threadgroupBytes.count <= index { threadgroupBytes.append(0) }
    threadgroupBytes[index] = bytes
  }

  func memoryBarrier(scope: MTLBarrierScope) {
    guard open("memoryBarrier") else { return }
    commandBuffer.beginGroup()
  }

  func dispatchThreadgroups(_ threadgroupsPerGrid: MTLSize, threadsPerThreadgroup: MTLSize) {
    guard open("dispatchThreadgroups") else { return }
    guard let pipeline else { return misuse("a dispatch without a pipeline") }
    guard check(threadgroupsPerGrid, threadsPerThreadgroup, pipeline) else { return }

    var arguments: [(index: Int, value: Dispatch.Argument)] = []
    for index in 0..<Self.slots where pipeline.uses(index) {
      guard let value = bound[index] else { return misuse("buffer \(index) is not bound") }
      if case .bytes = value, pipeline.writes(index) { return misuse("buffer \(index) is written, but set by setBytes") }
      arguments.append((index, value))
    }
    if dispatchType == .serial { commandBuffer.beginGroup() }
    commandBuffer.append(
      Dispatch(
        pipeline: pipeline, arguments: arguments, threadgroupBytes: threadgroupBytes,
        threadgroups: threadgroupsPerGrid, threads: threadsPerThreadgroup))
  }

  func endEncoding() {
    guard open("endEncoding") else { return }
    ended = true
    commandBuffer.encoderEnded()
  }

  private func checkIndex(_ index: Int) -> Bool {
    let inside = index >= 0 && index < Self.slots
    if !inside { misuse("argument index \(index), the last is \(Self.slots - 1)") }
    return inside
  }

  private func check(_ groups: MTLSize, _ threads: MTLSize, _ pipeline: EmulatedPipeline) -> Bool {
    for n in [groups.width, groups.height, groups.depth, threads.width, threads.height, threads.depth]
    where n <= 0 || n > Int(UInt32.max) {
      misuse("a grid of \(groups) threadgroups of \(threads) threads")
      return false
    }
    let total = threads.width.multipliedReportingOverflow(by: threads.height)
    let all = total.partialValue.multipliedReportingOverflow(by: threads.depth)
    if total.overflow || all.overflow || all.partialValue > pipeline.maxTotalThreadsPerThreadgroup {
      misuse("\(threads) threads in a threadgroup, the limit is \(pipeline.maxTotalThreadsPerThreadgroup)")
      return false
    }
    let memory = threadgroupBytes.reduce(pipeline.staticThreadgroupMemoryLength) { $0 + Int($1) }
    if memory > pipeline.function.device.maxThreadgroupMemoryLength {
      misuse("\(memory) bytes of threadgroup memory, the limit is 32768")
      return false
    }
    return true
  }
}
