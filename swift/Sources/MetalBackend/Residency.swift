import Metal
import Synchronization

/// Keeps a device's memory resident for the GPU as one set, so that Metal does not go through the buffers of each command
/// buffer. The set belongs to the queue, whose command buffers then need all of it: it takes no more than Metal recommends
/// to have in use at a time. What it does not take is made resident by being bound, as without a set.
///
/// A set keeps its allocations, until one that was taken out is committed: memory that is given back leaves at once, what
/// is new comes in before the next command buffers.
final class Residency: Sendable {
  private struct State: @unchecked Sendable {
    let set: (any MTLResidencySet)?
    var room: UInt64
    var hasNew = false
  }
  private let state: Mutex<State>

  /// Of a device that makes no set, nothing is kept.
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

  /// Also of a buffer that was never taken.
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

  /// Before command buffers that use what is new.
  func commit() {
    state.withLock { state in
      guard state.hasNew else { return }
      state.hasNew = false
      state.set?.commit()
    }
  }
}
