import GatedDeltaTypes
import Synchronization

/// A buffer handle's object: memory, the device that it was made for, and whether its handle is still good. A plan
/// keeps the object, and with it the memory, but may not run once the handle has been released.
final class Buffer: Sendable {
  let memory: Memory
  /// Identity alone, so that buffers may outlive their device.
  let device: ObjectIdentifier
  private let released = Atomic<Bool>(false)

  init(memory: Memory, device: ObjectIdentifier) {
    self.memory = memory
    self.device = device
  }

  var isReleased: Bool { released.load(ordering: .acquiring) }
  func markReleased() { released.store(true, ordering: .releasing) }
}
