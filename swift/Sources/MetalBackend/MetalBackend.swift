import GatedDeltaTypes
import Metal
import Synchronization
import Threading

/// Runs ops as Metal pipelines over unified memory. Dispatches of a submission may overlap, with barriers only where
/// one needs the result of another.
///
/// A failed submission leaves its outputs undefined and does not affect later ones, which run. Only if the system takes
/// the GPU from the process does everything fail from then on: the device is lost, and refuses new ops.
public final class MetalBackend: Backend, @unchecked Sendable {
  /// The limit of command buffers in flight. Metal blocks a thread that asks for one more; its own default is 64.
  static let commandBufferLimit = 512
  /// The limit of command buffers of one submission that are encoded before the first is committed. With more, others
  /// would have to complete first, and the queue would run out if those belong to the submission itself.
  static let heldCommandBuffers = 64
  /// Bytes of the sink for each argument: the strictest alignment of offsets that Metal may require, so that no two
  /// overlap.
  static let sinkPiece = 256
  static let sinkBytes = 16384

  public let description: DeviceDescription
  let pipelines: Pipelines
  let arenas: ArenaPool
  let queue: any MTLCommandQueue
  let fence: any MTLFence
  /// Bound to arguments that an option switches off.
  let sink: MetalMemory
  private let device: any MTLDevice
  private let loss = Mutex<Failure?>(nil)
  private let gpuTime = Atomic<UInt64>(0)
  let residency: Residency
  /// Multiply-adds of a command buffer; see `Encoding`.
  var workLimit = Encoding.workLimit
  /// True if a pass that updates the fence precedes the next one. Used by the owning thread only.
  private(set) var hasCommitted = false
  /// The lists of the last pass. Used by the owning thread only.
  private var lists = PassLists()

  public static func open() throws(Failure) -> any Backend {
    let opened: Result<MetalBackend, Failure> = autoreleasepool {
      do throws(Failure) {
        guard let device = MTLCreateSystemDefaultDevice() else {
          throw Failure(.device, argument: "backend", expected: "a Metal device", received: noDeviceReason())
        }
        return .success(try MetalBackend(device: device))
      } catch {
        return .failure(error)
      }
    }
    return try opened.get()
  }

  init(device: any MTLDevice) throws(Failure) {
    guard device.supportsFamily(.apple7) else {
      throw Failure(
        .device, argument: "backend", expected: "an Apple M1 or later (GPU family Apple7)", received: device.name)
    }
    guard let queue = device.makeCommandQueue(maxCommandBufferCount: Self.commandBufferLimit),
      let fence = device.makeFence(), let sink = device.makeBuffer(length: Self.sinkBytes, options: .untracked)
    else {
      throw Failure(.device, argument: "backend", expected: "a command queue", received: "none from \(device.name)")
    }
    self.device = device
    self.queue = queue
    self.fence = fence
    let residency = Residency(device: device, queue: queue)
    self.residency = residency
    self.sink = MetalMemory(sink, byteCount: Self.sinkBytes, .own, residency)
    arenas = ArenaPool(device: device, residency: residency)
    pipelines = Pipelines(device: device)
    description = DeviceDescription(
      backend: .metal, name: device.name, isa: "", threads: 0, emulated: Self.isEmulated)
  }

  public func allocate(byteCount: Int) throws(Failure) -> Memory {
    let length = max(1, ceilDiv(byteCount, 16384)) * 16384
    guard length <= device.maxBufferLength,
      let buffer = autoreleasepool(invoking: { device.makeBuffer(length: length, options: .untracked) })
    else {
      throw Failure(.outOfMemory, argument: "bytes", expected: "available memory", received: "\(byteCount) bytes")
    }
    return MetalMemory(buffer, byteCount: byteCount, .own, residency)
  }

  public func wrap(pointer: UnsafeMutableRawPointer, byteCount: Int) throws(Failure) -> Memory {
    guard Int(bitPattern: pointer) % 16384 == 0, byteCount % 16384 == 0, byteCount > 0 else {
      throw Failure(
        .invalidArgument, argument: "pointer", expected: "an address and a length that are multiples of 16384",
        received: "an address \(Int(bitPattern: pointer) % 16384) bytes above one, and \(byteCount) bytes")
    }
    let buffer = autoreleasepool {
      device.makeBuffer(bytesNoCopy: pointer, length: byteCount, options: .untracked, deallocator: nil)
    }
    guard let buffer else {
      throw Failure(
        .outOfMemory, argument: "bytes", expected: "memory that the GPU can map", received: "\(byteCount) bytes")
    }
    return MetalMemory(buffer, byteCount: byteCount, .wrapped, residency)
  }

  public func map(_ window: FileWindow) throws(Failure) -> Memory {
    let length = ceilDiv(window.byteCount, FileWindow.alignment) * FileWindow.alignment
    let buffer = autoreleasepool {
      // Metal may release a buffer later than its last reference here goes: the buffer itself keeps the window.
      device.makeBuffer(bytesNoCopy: window.pointer, length: length, options: .untracked) { _, _ in
        withExtendedLifetime(window) {}
      }
    }
    guard let buffer else {
      throw Failure(
        .outOfMemory, argument: window.file.path, expected: "a window that the GPU can map",
        received: "\(window.byteCount) bytes")
    }
    return MetalMemory(buffer, byteCount: window.byteCount, .mapped(window), residency)
  }

  public var largestBuffer: Int { device.maxBufferLength / FileWindow.alignment * FileWindow.alignment }

  public func check(_ op: Op) throws(Failure) {
    try checkNotLost()
    // Resolved gates are numbered in 32 bits. A tensor of more is possible only if its rows overlap.
    if case .gatedDelta(let op, _) = op {
      let gates = op.tokens * op.valueHeads * (op.options.gateDims == .perKey ? op.keyDim : 1)
      guard gates <= Int(UInt32.max) else {
        throw Failure(.unsupported, argument: "gate", expected: "at most \(UInt32.max) gates", received: "\(gates)")
      }
    }
  }

  public func submit(_ submission: any Submission) {
    autoreleasepool {
      do throws(Failure) {
        try checkNotLost()
        try commit(submission)
      } catch {
        // The core reports it in order.
        submission.finish(error)
      }
    }
  }

  private func commit(_ submission: any Submission) throws(Failure) {
    let many = Encoding.commandBuffers(of: submission.ops, workLimit: workLimit) > Self.heldCommandBuffers
    if many { try rehearse(submission.ops) }
    residency.commit()
    let completion = Completion(submission)
    let scratch = Scratch(pool: arenas)
    func commit(_ commandBuffer: any MTLCommandBuffer) {
      completion.add()
      commandBuffer.addCompletedHandler { commandBuffer in
        autoreleasepool {
          self.gpuTime.wrappingAdd(commandBuffer.gpuNanoseconds, ordering: .relaxed)
          let failure = commandBuffer.failure
          if let failure, commandBuffer.deviceIsLost { self.loss.withLock { $0 = $0 ?? failure } }
          guard completion.complete(failure) else { return }
          scratch.giveBack()
          completion.finish()
        }
      }
      commandBuffer.commit()
      hasCommitted = true
    }

    var problem: Failure?
    do throws(Failure) {
      var encoding = try Encoding(device: self, commit: many ? commit : nil)
      do throws(Failure) {
        for op in submission.ops { try encoding.add(op) }
      } catch {
        problem = error
      }
      encoding.end()
      lists = encoding.lists
      scratch.take(encoding.chunks)
      completion.take(encoding.checks)
      if problem == nil { for commandBuffer in encoding.commandBuffers { commit(commandBuffer) } }
    } catch {
      problem = error
    }
    guard completion.complete(problem) else { return }
    scratch.giveBack()
    completion.finish()
  }

  /// Encodes the ops without running them: ops that cannot be encoded fail here, and every pipeline that they need is
  /// compiled. From any thread.
  func rehearse(_ ops: [EncodedOp]) throws(Failure) {
    var pass = Pass(device: self, encoder: nil, arena: Arena(pool: arenas))
    defer { arenas.giveBack(pass.arena.chunks) }
    for op in ops {
      do throws(Failure) {
        try pass.encode(op.op)
      } catch {
        var failure = error
        failure.op = "\(op.name)"
        throw failure
      }
    }
  }

  public func prepare(_ ops: [EncodedOp], _ done: @escaping @Sendable (Failure?) -> Void) {
    let prepare: @Sendable () -> Void = {
      autoreleasepool {
        do throws(Failure) {
          try self.checkNotLost()
          try self.rehearse(ops)
          done(nil)
        } catch {
          done(error)
        }
      }
    }
    // If the system has no thread available, the calling thread does it.
    if !startThread(prepare) { prepare() }
  }

  /// Lists for a pass on the owning thread.
  func takeLists() -> PassLists {
    var taken = PassLists()
    swap(&taken, &lists)
    return taken
  }

  public var gpuNanoseconds: UInt64 { gpuTime.load(ordering: .relaxed) }

  private func checkNotLost() throws(Failure) {
    guard let cause = loss.withLock({ $0 }) else { return }
    throw Failure(
      .device, argument: "device", expected: "one that the system has not removed", received: cause.received)
  }

  /// The GPU does the work: a waiting thread cannot help.
  public func assist(_ submission: any Submission) {}

  /// A submission is committed to the GPU at once, and committed work runs to its end: the core waits for it.
  public func stop(from ticket: UInt64) {}

  public func close() {}
}

extension MTLResourceOptions {
  /// Shared with the CPU; this backend handles hazards itself.
  static var untracked: MTLResourceOptions { [.storageModeShared, .hazardTrackingModeUntracked] }
}

extension MTLCommandBuffer {
  /// The GPU time of a completed command buffer; 0 if Metal does not report it.
  fileprivate var gpuNanoseconds: UInt64 {
    let seconds = gpuEndTime - gpuStartTime
    return seconds > 0 && seconds < 1e6 ? UInt64(seconds * 1e9) : 0
  }

  private var code: MTLCommandBufferError.Code? { (error as? MTLCommandBufferError)?.code }

  /// The failure that the GPU reported, nil if there was none.
  var failure: Failure? {
    guard status == .error else { return nil }
    let words = error.map { "\($0)" } ?? "an error without a description"
    switch code {
    case .outOfMemory:
      return Failure(.outOfMemory, expected: "memory for the GPU's work", received: words)
    case .timeout:
      return Failure(.device, expected: "the GPU to finish within the system's limit of time", received: words)
    default:
      return Failure(.device, expected: "the GPU to finish", received: words)
    }
  }

  /// True if no further GPU work of this process will run.
  var deviceIsLost: Bool { code == .accessRevoked || code == .notPermitted }
}
