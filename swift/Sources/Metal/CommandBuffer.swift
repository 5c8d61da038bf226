import Glibc

/// Dispatches in groups: a barrier (or a serial encoder's next dispatch) begins a new one, and a GPU may run the
/// dispatches of one group in any order.
final class EmulatedCommandBuffer: MTLCommandBuffer, @unchecked Sendable {
  let queue: EmulatedQueue
  /// If false, the caller keeps buffers alive until the command buffer has completed.
  let retainsBuffers: Bool
  private let condition = Condition()
  // Guarded by `condition`.
  private var state = MTLCommandBufferStatus.notEnqueued
  private var problem: MTLCommandBufferError?
  private var handlers: [MTLCommandBufferHandler] = []
  private var groups: [[Dispatch]] = []
  private var dispatches = 0
  private var hasEncoder = false
  private var isOver = false
  private var calls = EncoderCalls()
  private var times: (start: CFTimeInterval, end: CFTimeInterval) = (0, 0)
  /// The work of the thread that made this command buffer, until it did so.
  private var workBefore = HostWork()

  init(queue: EmulatedQueue, retainsBuffers: Bool) {
    self.queue = queue
    self.retainsBuffers = retainsBuffers
    workBefore = .now
  }

  deinit {
    // Dropped before its commit: its place in the queue is free again.
    if state == .notEnqueued { queue.release() }
  }

  var status: MTLCommandBufferStatus { condition.locked { state } }
  var error: (any Error)? { condition.locked { problem } }
  /// Once it has run: by this machine's clock, which says nothing about a GPU, or by the emulated GPU's speed.
  var gpuStartTime: CFTimeInterval { condition.locked { times.start } }
  var gpuEndTime: CFTimeInterval { condition.locked { times.end } }
  /// Of all encoders that have ended.
  var encoderCalls: EncoderCalls { condition.locked { calls } }

  func makeComputeCommandEncoder(dispatchType: MTLDispatchType) -> (any MTLComputeCommandEncoder)? {
    HostWork.without {
      let problem: String? = condition.locked {
        if state != .notEnqueued { return "an encoder was asked for after commit" }
        if hasEncoder { return "a second encoder was asked for before endEncoding" }
        hasEncoder = true
        return nil
      }
      if let problem {
        fault(problem)
        return nil
      }
      return EmulatedEncoder(commandBuffer: self, dispatchType: dispatchType)
    }
  }

  func beginGroup() { condition.locked { groups.append([]) } }
  func encoderEnded(_ more: EncoderCalls) {
    condition.locked {
      hasEncoder = false
      calls = calls + more
    }
  }
  func nextNumber() -> Int {
    condition.locked {
      dispatches += 1
      return dispatches
    }
  }
  func append(_ dispatch: Dispatch) {
    condition.locked { groups[groups.count - 1].append(dispatch) }
  }

  /// The first misuse is reported: later ones are often its consequences.
  func fault(_ what: String) {
    condition.locked { if problem == nil { problem = MTLCommandBufferError(.internal, what) } }
  }

  func addCompletedHandler(_ block: @escaping MTLCommandBufferHandler) {
    HostWork.without {
      let late = condition.locked {
        guard state == .notEnqueued else { return true }
        handlers.append(block)
        return false
      }
      if late { fault("addCompletedHandler after commit") }
    }
  }

  func commit() {
    let work = HostWork.now
    HostWork.without {
      let isFirst = condition.locked {
        guard state == .notEnqueued else { return false }
        state = .committed
        return true
      }
      guard isFirst else { return fault("a second commit") }
      queue.device.counts?.write(calls, from: workBefore, to: work)
      if condition.locked({ hasEncoder }) { fault("commit before endEncoding") }
      queue.enqueue(self)
    }
  }

  /// Until the handlers have been called too, as Apple's page says.
  func waitUntilCompleted() {
    let committed = condition.locked { state != .notEnqueued }
    guard committed else { return fault("waitUntilCompleted before commit") }
    condition.locked(when: { isOver }) {}
  }

  /// Called by the queue's thread.
  func run() {
    var (work, fault) = condition.locked { (groups, problem) }
    let start = now()
    var accesses: UInt64 = 0
    fault =
      fault ?? queue.takeFailure().map { MTLCommandBufferError($0, "the emulated GPU was told to fail") }
      ?? queue.ignoring() ?? execute(work, &accesses)
    let end = queue.device.settings.speed.map { start + Double(accesses) / $0 } ?? now()
    if fault == nil, end - start > queue.device.settings.patience {
      fault = MTLCommandBufferError(
        .internal, "Impacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)")
      queue.ignore()
    }
    // Release everything that the dispatches hold before reporting the end.
    work = []
    let handlers = condition.locked {
      let taken = self.handlers
      self.handlers = []
      groups = []
      times = (start, end)
      // A misuse after the commit remains the command buffer's.
      problem = fault ?? problem
      state = problem == nil ? .completed : .error
      return taken
    }
    queue.release()
    for handler in handlers { handler(self) }
    condition.change { isOver = true }
  }

  private func now() -> CFTimeInterval {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return CFTimeInterval(time.tv_sec) + CFTimeInterval(time.tv_nsec) * 1e-9
  }

  /// Adds the kernels' memory accesses to `accesses`.
  private func execute(_ groups: [[Dispatch]], _ accesses: inout UInt64) -> MTLCommandBufferError? {
    for group in groups {
      // The emulator compares the memory that dispatches touch; their bindings show which of it to remember.
      var together: UInt64 = 0
      let written = group.map { $0.extents(written: true) }
      let read = group.map { $0.extents(written: false) }
      for dispatch in queue.order(group) {
        func others(_ extents: [[Range<UInt>]]) -> [Range<UInt>] {
          zip(group, extents).flatMap { $0.number == dispatch.number ? [] : $1 }
        }
        if let message = dispatch.run(
          together: &together, accesses: &accesses, written: others(written), read: others(read)) {
          return MTLCommandBufferError(.pageFault, "\(dispatch.kernel): \(message)")
        }
      }
    }
    return nil
  }
}
