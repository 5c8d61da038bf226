import Metal
import Synchronization

/// Keeps a device's memory resident for the GPU as one set, so that Metal does not go through the buffers of each
/// command buffer. The set belongs to the queue, whose command buffers then need all of it: it takes no more than Metal
/// recommends to have in use at a time. The rest becomes resident when it is bound, as without a set.
///
/// A set keeps an allocation until its removal is committed: freed memory leaves at once, new memory is added before
/// the next command buffers.
final class Residency: Sendable {
  private struct State: @unchecked Sendable {
    let set: (any MTLResidencySet)?
    var room: UInt64
    var hasNew = false
  }
  private let state: Mutex<State>

  /// If the device makes no set, nothing is tracked.
  init(device: any MTLDevice, queue: any MTLCommandQueue) {
    let set = try? device.makeResidencySet(descriptor: MTLResidencySetDescriptor())
    if let set { queue.addResidencySet(set) }
    state = Mutex(State(set: set, room: device.recommendedMaxWorkingSetSize))
  }

  func add(_ buffer: any MTLBuffer) {
    let length = UInt64(buffer.length)
    state.withLock { state in
      guard let set = state.set, length <= state.room else { return }
      state.room -= length
      state.hasNew = true
      set.addAllocation(buffer)
    }
  }

  /// Also called for buffers that were never added.
  func remove(_ buffer: any MTLBuffer) {
    let length = UInt64(buffer.length)
    state.withLock { state in
      guard let set = state.set, set.containsAllocation(buffer) else { return }
      state.room += length
      state.hasNew = false
      set.removeAllocation(buffer)
      set.commit()
    }
  }

  /// Called before command buffers that use new memory.
  func commit() {
    state.withLock { state in
      guard state.hasNew else { return }
      state.hasNew = false
      state.set?.commit()
    }
  }
}
