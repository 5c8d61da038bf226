import GatedDeltaTypes
import Synchronization

/// The object of a buffer handle: memory, the device it was made for, and whether its handle is still valid. A plan
/// keeps the object, and with it the memory, but may not run once the handle has been released.
final class Buffer: Sendable {
  let memory: Memory
  /// The serial number of the device, which is never reused: a buffer may outlive its device.
  let device: UInt64
  /// The thread that created it, by `ThreadState.id`.
  let owner: UInt64
  private let released = Atomic<Bool>(false)

  init(memory: Memory, device: UInt64, owner: UInt64) {
    self.memory = memory
    self.device = device
    self.owner = owner
  }

  var isReleased: Bool { released.load(ordering: .acquiring) }
  func markReleased() { released.store(true, ordering: .releasing) }
}
