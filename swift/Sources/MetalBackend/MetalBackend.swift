import GatedDeltaTypes
import Metal
import ShaderParams
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
  let workLimit: WorkLimit
  let chip: Chip
  let forms: Forms
  /// Nil: forms are taken without trials.
  let trials: TrialSize?
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

  init(
    device: any MTLDevice, workLimit: WorkLimit = WorkLimit(), pipelines: Pipelines? = nil, chip: Chip? = nil,
    forms: Forms? = nil, trials: TrialSize? = isEmulated ? nil : TrialSize()
  ) throws(Failure) {
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
    self.workLimit = workLimit
    self.chip = chip ?? Chip(cores: cores(of: device))
    self.forms = forms ?? Forms.of(chip: device.name)
    self.trials = trials
    self.queue = queue
    self.fence = fence
    let residency = Residency(device: device, queue: queue)
    self.residency = residency
    self.sink = MetalMemory(sink, byteCount: Self.sinkBytes, .own, residency)
    arenas = ArenaPool(device: device, residency: residency)
    self.pipelines = pipelines ?? Pipelines(device: device)
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

  /// A table of the pieces: the number of a piece's buffer in the highest byte, and the piece's offset.
  public func join(_ joined: JoinedPieces) throws(Failure) -> Memory {
    let length = MemoryLayout<UInt64>.stride * joined.pieces.count
    guard let table = autoreleasepool(invoking: { device.makeBuffer(length: length, options: .untracked) }) else {
      throw Failure(.outOfMemory, argument: "pieces", expected: "available memory", received: "\(length) bytes")
    }
    let entries = table.contents().bindMemory(to: UInt64.self, capacity: joined.pieces.count)
    for (index, piece) in joined.pieces.enumerated() {
      entries[index] = UInt64(piece.buffer) << UInt64(GDM_PIECE_BUFFER) | UInt64(piece.offset)
    }
    return MetalMemory(table, byteCount: joined.byteCount, .joined(joined), residency)
  }

  public var largestBuffer: Int { device.maxBufferLength / FileWindow.alignment * FileWindow.alignment }

  public func check(_ op: Op) throws(Failure) {
    try checkNotLost()
    if case .gatedDelta(let op, _) = op, op.options.algorithm == .chunked {
      throw Failure(
        .unsupported, argument: "algorithm", expected: "auto or recurrent: the chunked form is the CPU's", received: "chunked")
    }
    // Resolved gates are numbered in 32 bits. A tensor with more is possible only if its rows overlap.
    if case .gatedDelta(let op, _) = op {
      let gates = op.tokens * op.valueHeads * (op.options.gateDims == .perKey ? op.keyDim : 1)
      guard gates <= Int(UInt32.max) else {
        throw Failure(.unsupported, argument: "gate", expected: "at most \(UInt32.max) gates", received: "\(gates)")
      }
    }
    switch op {
    case .linear(let op): try check(op.options.activations)
    case .expertLinear(let op): try check(op.options.activations)
    default: break
    }
  }

  private func check(_ activations: ActivationForm) throws(Failure) {
    guard activations == .exact else {
      throw Failure(
        .unsupported, argument: "activations", expected: "exact on this backend", received: activations.publicName)
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
    // The limit may change while the submission is encoded.
    let limit = workLimit.value
    let many = Encoding.commandBuffers(of: submission.ops, workLimit: limit) > Self.heldCommandBuffers
    if many { try rehearse(submission.ops) }
    residency.commit()
    let completion = Completion(submission)
    let scratch = Scratch(pool: arenas)
    func commit(_ commandBuffer: any MTLCommandBuffer, _ work: Int) {
      completion.add()
      commandBuffer.addCompletedHandler { commandBuffer in
        autoreleasepool {
          self.completed(commandBuffer, work: work)
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
      var encoding = try Encoding(device: self, workLimit: limit, commit: many ? commit : nil)
      do throws(Failure) {
        for op in submission.ops { try encoding.add(op) }
      } catch {
        problem = error
      }
      encoding.end()
      lists = encoding.lists
      scratch.take(encoding.chunks)
      completion.take(encoding.checks)
      if problem == nil { for filled in encoding.filled { commit(filled.commandBuffer, filled.work) } }
    } catch {
      problem = error
    }
    guard completion.complete(problem) else { return }
    scratch.giveBack()
    completion.finish()
  }

  /// Learns from a command buffer that has run.
  private func completed(_ commandBuffer: any MTLCommandBuffer, work: Int) {
    let seconds = commandBuffer.gpuSeconds
    gpuTime.wrappingAdd(UInt64(seconds * 1e9), ordering: .relaxed)
    if commandBuffer.keptDisplayWaiting {
      workLimit.ended()
    } else if commandBuffer.status == .completed {
      workLimit.ran(work: work, seconds: seconds)
    }
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
          if self.trials != nil {
            // A trial may have chosen a form other than the one compiled.
            self.measureForms(of: ops)
            try self.rehearse(ops)
          }
          done(nil)
        } catch {
          done(error)
        }
      }
    }
    // If the system has no thread available, the calling thread does it.
    if !startThread(prepare) { prepare() }
  }

  /// A queue for work that nothing waits for but its own thread.
  func makeQueue() -> (any MTLCommandQueue)? { device.makeCommandQueue(maxCommandBufferCount: 1) }

  /// Lists for a pass on the owning thread.
  func takeLists() -> PassLists {
    var taken = PassLists()
    swap(&taken, &lists)
    return taken
  }

  public var gpuNanoseconds: UInt64 { gpuTime.load(ordering: .relaxed) }

  private func checkNotLost() throws(Failure) {
    guard let cause = loss.withLock({ $0 }) else { return }
    throw Failure(.device, argument: "device", expected: lostDevice, received: cause.received)
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
  fileprivate var gpuSeconds: Double {
    let seconds = gpuEndTime - gpuStartTime
    return seconds > 0 && seconds < 1e6 ? seconds : 0
  }

  private var code: MTLCommandBufferError.Code? { (error as? MTLCommandBufferError)?.code }

  /// The error's words: the two kinds below are not documented and have no codes of their own.
  private var words: String { error.map { "\($0)" } ?? "an error without a description" }

  /// True if macOS ended it because other programs, such as the one that draws the screen, waited for the GPU.
  fileprivate var keptDisplayWaiting: Bool { status == .error && words.has("ImpactingInteractivity") }

  /// True if it was not run because of errors before it.
  private var wasIgnored: Bool { words.has("SubmissionsIgnored") }

  /// The failure that the GPU reported, nil if there was none.
  var failure: Failure? {
    guard status == .error else { return nil }
    let words = words
    if keptDisplayWaiting {
      return Failure(.device, expected: "work that leaves the GPU to the display in time", received: words)
    }
    if wasIgnored { return Failure(.device, expected: lostDevice, received: words) }
    switch code {
    case .outOfMemory:
      return Failure(.outOfMemory, expected: "memory for the GPU's work", received: words)
    case .timeout:
      return Failure(.device, expected: "the GPU to finish within the system's limit of time", received: words)
    default:
      return Failure(.device, expected: "the GPU to finish", received: words)
    }
  }

  /// True if no further work of this queue will run.
  var deviceIsLost: Bool { code == .accessRevoked || code == .notPermitted || status == .error && wasIgnored }
}

/// The words for a device that is not lost, with the remedy for one that is.
private let lostDevice = "one whose work the system still runs: close this one and open another"

extension String {
  /// Whether a text occurs in this one. The standard library's `contains` brings regular expressions, 1.3 MB, into a linked library.
  fileprivate func has(_ text: String) -> Bool {
    let (own, wanted) = (Array(utf8), Array(text.utf8))
    return own.indices.contains { own[$0...].starts(with: wanted) }
  }
}
