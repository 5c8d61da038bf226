import Glibc

/// A mutex with a condition variable, in one piece of memory that stays where it is.
final class Condition: @unchecked Sendable {
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let signal = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  init() {
    pthread_mutex_init(mutex, nil)
    pthread_cond_init(signal, nil)
  }

  deinit {
    pthread_cond_destroy(signal)
    pthread_mutex_destroy(mutex)
    signal.deallocate()
    mutex.deallocate()
  }

  func locked<T>(_ body: () -> T) -> T {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return body()
  }

  /// Waits until `holds`, then runs `body` before any other thread can.
  func locked<T>(when holds: () -> Bool, _ body: () -> T) -> T {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    while !holds() { pthread_cond_wait(signal, mutex) }
    return body()
  }

  /// Runs `body` and wakes all waiting threads.
  func change<T>(_ body: () -> T) -> T {
    pthread_mutex_lock(mutex)
    defer {
      pthread_cond_broadcast(signal)
      pthread_mutex_unlock(mutex)
    }
    return body()
  }
}

/// Runs command buffers in order on a thread of its own, which ends when nothing is left to run and is started anew
/// when something is: an idle queue costs nothing and keeps nothing alive.
final class EmulatedQueue: MTLCommandQueue, @unchecked Sendable {
  let device: EmulatedDevice
  private let limit: Int
  private let condition = Condition()
  // Guarded by `condition`.
  private var pending: [EmulatedCommandBuffer] = []
  private var running = false
  private var uncompleted = 0
  private var failures: [MTLCommandBufferError.Code] = []
  private var sets: [any MTLResidencySet] = []
  // Only for the running thread.
  private var groups: UInt64 = 0
  /// Whether a command buffer was ended: the system runs no later ones.
  private var ignores = false

  init(device: EmulatedDevice, limit: Int) {
    self.device = device
    self.limit = limit
  }

  /// Blocks, as Apple's does, while the queue's command buffers are all in use.
  func makeCommandBuffer() -> (any MTLCommandBuffer)? { makeCommandBuffer(retainsBuffers: true) }

  func makeCommandBufferWithUnretainedReferences() -> (any MTLCommandBuffer)? {
    makeCommandBuffer(retainsBuffers: false)
  }

  private func makeCommandBuffer(retainsBuffers: Bool) -> EmulatedCommandBuffer {
    HostWork.without {
      condition.locked(when: { uncompleted < limit }) { uncompleted += 1 }
      return EmulatedCommandBuffer(queue: self, retainsBuffers: retainsBuffers)
    }
  }

  func addResidencySet(_ residencySet: any MTLResidencySet) { condition.locked { sets.append(residencySet) } }

  var residencySets: [any MTLResidencySet] { condition.locked { sets } }

  /// The next command buffer to run fails with this, as a GPU's may at any time.
  func failNext(_ code: MTLCommandBufferError.Code) {
    condition.locked { failures.append(code) }
  }

  func takeFailure() -> MTLCommandBufferError.Code? {
    condition.locked { failures.isEmpty ? nil : failures.removeFirst() }
  }

  /// Command buffers from now on do not run.
  func ignore() { ignores = true }

  /// The failure of a command buffer that does not run.
  func ignoring() -> MTLCommandBufferError? {
    guard ignores else { return nil }
    return MTLCommandBufferError(
      .accessRevoked,
      "Ignored (for causing prior/excessive GPU errors) (00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored)")
  }

  /// A command buffer has completed, or was dropped before its commit.
  func release() {
    condition.change { uncompleted -= 1 }
  }

  func order(_ group: [Dispatch]) -> [Dispatch] {
    groups &+= 1
    return device.settings.order.apply(group, salt: groups)
  }

  func enqueue(_ buffer: EmulatedCommandBuffer) {
    let start = condition.locked {
      pending.append(buffer)
      defer { running = true }
      return !running
    }
    if start { startThread() }
  }

  private func startThread() {
    var thread = pthread_t()
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    let context = Unmanaged.passRetained(self)
    let status = pthread_create(
      &thread, &attributes,
      { context in
        guard let context else { return nil }
        Unmanaged<EmulatedQueue>.fromOpaque(context).takeRetainedValue().drain()
        return nil
      }, context.toOpaque())
    pthread_attr_destroy(&attributes)
    if status != 0 {
      // No thread is available: the caller's does the work.
      context.release()
      drain()
    }
  }

  private func drain() {
    while true {
      let next: EmulatedCommandBuffer? = condition.locked {
        if pending.isEmpty {
          running = false
          return nil
        }
        return pending.removeFirst()
      }
      guard let next else { return }
      if device.settings.delay > 0 { usleep(device.settings.delay) }
      next.run()
    }
  }
}
