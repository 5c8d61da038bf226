import Glibc

/// Dispatches in groups: a barrier (or a serial encoder's next dispatch) begins a new one, and what is inside one group
/// a GPU may run in any order.
final class EmulatedCommandBuffer: MTLCommandBuffer, @unchecked Sendable {
  var label: String?
  private let queue: EmulatedQueue
  private let condition = Condition()
  // Guarded by `condition`.
  private var state = MTLCommandBufferStatus.notEnqueued
  private var problem: MetalEmulationError?
  private var handlers: [MTLCommandBufferHandler] = []
  private var groups: [[Dispatch]] = []
  private var encoderOpen = false

  init(queue: EmulatedQueue) { self.queue = queue }

  var status: MTLCommandBufferStatus { condition.locked { state } }
  var error: (any Error)? { condition.locked { problem } }

  func makeComputeCommandEncoder(dispatchType: MTLDispatchType) -> (any MTLComputeCommandEncoder)? {
    let legal = condition.locked {
      let legal = state == .notEnqueued && !encoderOpen
      encoderOpen = true
      return legal
    }
    guard legal else {
      fault("an encoder was asked for while one was open, or after commit")
      return nil
    }
    return EmulatedEncoder(commandBuffer: self, dispatchType: dispatchType)
  }

  func beginGroup() { condition.locked { groups.append([]) } }
  func encoderEnded() { condition.locked { encoderOpen = false } }
  func append(_ dispatch: Dispatch) {
    condition.locked { groups[groups.count - 1].append(dispatch) }
  }

  /// The first misuse wins: what follows is often its consequence.
  func fault(_ what: String) {
    condition.locked { if problem == nil { problem = MetalEmulationError(what) } }
  }

  func addCompletedHandler(_ block: @escaping MTLCommandBufferHandler) {
    let late = condition.locked {
      guard state == .notEnqueued else { return true }
      handlers.append(block)
      return false
    }
    if late { fault("addCompletedHandler after commit") }
  }

  func commit() {
    let twice = condition.locked {
      guard state == .notEnqueued else { return true }
      if encoderOpen, problem == nil { problem = MetalEmulationError("commit before endEncoding") }
      state = .committed
      return false
    }
    if !twice { queue.enqueue(self) }
  }

  func waitUntilCompleted() {
    condition.wait { state == .completed || state == .error }
  }

  /// Called by the queue's thread.
  func run() {
    let (work, fault) = condition.locked { (groups, problem) }
    var failure = fault
    if failure == nil {
      search: for group in work {
        if let clash = clash(in: group) {
          failure = MetalEmulationError(clash)
          break
        }
        for dispatch in queue.order(group) {
          if let message = dispatch.run() {
            failure = MetalEmulationError("\(dispatch.pipeline.function.name): \(message)")
            break search
          }
        }
      }
    }
    let (handlers, failed) = condition.locked {
      let taken = self.handlers
      self.handlers = []
      groups = []
      problem = failure
      return (taken, failure != nil)
    }
    // Metal calls the handlers before waiters go on, on a thread of its own.
    condition.locked { state = failed ? .error : .completed }
    for handler in handlers { handler(self) }
    condition.broadcast()
  }

  /// Two dispatches of one group that bind the same bytes, one of them for writing: a barrier is missing.
  private func clash(in group: [Dispatch]) -> String? {
    guard group.count > 1 else { return nil }
    struct Binding: Hashable {
      var buffer: ObjectIdentifier
      var offset: Int
    }
    var seen: [Binding: (kernel: String, index: Int, writes: Bool)] = [:]
    for dispatch in group {
      let kernel = dispatch.pipeline.function.name
      var own: [(Binding, Int, Bool)] = []
      for (index, value) in dispatch.arguments {
        guard case .buffer(let buffer, let offset) = value else { continue }
        let binding = Binding(buffer: ObjectIdentifier(buffer), offset: offset)
        let writes = dispatch.pipeline.writes(index)
        if let other = seen[binding], other.writes || writes {
          return "\(other.kernel) (buffer \(other.index)) and \(kernel) (buffer \(index)) touch the same memory, one of "
            + "them writing, with no barrier between"
        }
        own.append((binding, index, writes))
      }
      for (binding, index, writes) in own {
        let before = seen[binding]?.writes ?? false
        seen[binding] = (kernel, index, before || writes)
      }
    }
    return nil
  }
}
