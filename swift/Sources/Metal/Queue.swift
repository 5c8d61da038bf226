import CEmulator
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

  func wait(until holds: () -> Bool) {
    pthread_mutex_lock(mutex)
    while !holds() { pthread_cond_wait(signal, mutex) }
    pthread_mutex_unlock(mutex)
  }

  func broadcast() {
    pthread_mutex_lock(mutex)
    pthread_cond_broadcast(signal)
    pthread_mutex_unlock(mutex)
  }
}

/// Runs command buffers in order on a thread of its own, which ends when nothing has been committed for a while and is
/// started anew when something is: an idle queue costs nothing and keeps nothing alive.
final class EmulatedQueue: MTLCommandQueue, @unchecked Sendable {
  var label: String?
  let device: EmulatedDevice
  private let condition = Condition()
  private var pending: [EmulatedCommandBuffer] = []
  private var running = false
  private let shuffle = DispatchOrder.fromEnvironment()
  private var dispatched: UInt64 = 0

  init(device: EmulatedDevice) { self.device = device }

  func makeCommandBuffer() -> (any MTLCommandBuffer)? { EmulatedCommandBuffer(queue: self) }

  func order(_ group: [Dispatch]) -> [Dispatch] {
    dispatched &+= 1
    return shuffle.apply(group, salt: dispatched)
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
      // No thread to be had: the caller's does the work.
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
      next.run()
    }
  }
}

/// The order in which the dispatches of one group run: a GPU may choose any, so the emulation follows the order that it
/// uses for lanes, `GATED_DELTA_EMULATOR_ORDER`.
enum DispatchOrder {
  case forward
  case reverse
  case random(seed: UInt64)

  static func fromEnvironment() -> DispatchOrder {
    guard let text = getenv("GATED_DELTA_EMULATOR_ORDER").map({ String(cString: $0) }) else { return .forward }
    if text == "reverse" { return .reverse }
    if text.hasPrefix("random:") { return .random(seed: UInt64(text.dropFirst(7)) ?? 0) }
    return .forward
  }

  func apply(_ group: [Dispatch], salt: UInt64) -> [Dispatch] {
    switch self {
    case .forward: return group
    case .reverse: return group.reversed()
    case .random(let seed):
      var generator = SplitMix(state: seed &+ salt)
      return group.shuffled(using: &generator)
    }
  }
}

/// Sebastiano Vigna's splitmix64, for orders that can be repeated.
private struct SplitMix: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var z = state
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }
}

extension Dispatch {
  /// The emulator's message, or nil.
  func run() -> String? {
    let device = pipeline.function.device
    var buffers: [emu_buffer] = []
    // Copies of setBytes' data, alive until the dispatch is over.
    var copies: [UnsafeMutableRawBufferPointer] = []
    defer { for copy in copies { copy.deallocate() } }

    for (index, value) in arguments {
      switch value {
      case .buffer(let buffer, let offset):
        buffers.append(
          emu_buffer(
            pointer: buffer.contents(), bytes: UInt64(buffer.length), offset: UInt64(offset), index: UInt32(index),
            flags: 0))
      case .bytes(let bytes):
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 16)
        copy.copyBytes(from: bytes)
        copies.append(copy)
        buffers.append(
          emu_buffer(
            pointer: copy.baseAddress, bytes: UInt64(bytes.count), offset: 0, index: UInt32(index),
            flags: UInt32(EMU_BUFFER_READ_ONLY)))
      }
    }

    return buffers.withUnsafeBufferPointer { buffers in
      threadgroupBytes.withUnsafeBufferPointer { threadgroupBytes in
        var info = emu_dispatch_info()
        info.size = UInt32(MemoryLayout<emu_dispatch_info>.size)
        info.order = UInt32(EMU_ORDER_ENVIRONMENT)
        info.checks = EMU_CHECK_ENVIRONMENT
        info.buffer_count = UInt32(buffers.count)
        info.buffers = buffers.baseAddress
        info.threadgroup_count = UInt32(threadgroupBytes.count)
        info.threadgroup_bytes = threadgroupBytes.baseAddress
        info.threads_per_grid = (
          UInt64(threadgroups.width) &* UInt64(threads.width), UInt64(threadgroups.height) &* UInt64(threads.height),
          UInt64(threadgroups.depth) &* UInt64(threads.depth)
        )
        info.threads_per_threadgroup = (UInt32(threads.width), UInt32(threads.height), UInt32(threads.depth))
        return device.take(device.functions.dispatch(pipeline.function.handle, &info))
      }
    }
  }
}
