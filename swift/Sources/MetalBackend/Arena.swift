import GatedDeltaTypes
import Metal
import Synchronization

/// Buffers for what lives only as long as a command buffer: index data, resolved gates, copies of slots. A submission
/// takes pieces front to back and never reuses one, so pieces need no barriers among themselves; when it has finished
/// its buffers serve the next.
final class ArenaPool: Sendable {
  private struct State: @unchecked Sendable {
    var free: [any MTLBuffer] = []
  }
  private let device: any MTLDevice
  private let state = Mutex(State())
  /// Enough for the index data and gates of many decode steps.
  static let chunk = 1 << 20

  init(device: any MTLDevice) { self.device = device }

  func take(atLeast byteCount: Int) throws(Failure) -> any MTLBuffer {
    let reused: (any MTLBuffer)? = state.withLock { state in
      guard let index = state.free.firstIndex(where: { $0.length >= byteCount }) else { return nil }
      return state.free.remove(at: index)
    }
    if let reused { return reused }
    let length = max(Self.chunk, (byteCount + 16383) / 16384 * 16384)
    guard length <= device.maxBufferLength, let made = device.makeBuffer(length: length, options: .storageModeShared)
    else {
      throw Failure(.outOfMemory, expected: "\(length) bytes of scratch memory", received: "no buffer")
    }
    return made
  }

  func giveBack(_ buffers: [any MTLBuffer]) {
    // A prefill's large scratch is not kept: it may never be needed again.
    let kept = buffers.filter { $0.length <= 16 * Self.chunk }
    state.withLock { $0.free += kept }
  }
}

/// One submission's share of the arena.
struct Arena {
  private let pool: ArenaPool
  private(set) var buffers: [any MTLBuffer] = []
  private var used = 0

  init(pool: ArenaPool) { self.pool = pool }

  mutating func region(byteCount: Int) throws(Failure) -> Region {
    // 256: Metal's strictest offset alignment.
    let start = (used + 255) / 256 * 256
    if let last = buffers.last, start + byteCount <= last.length {
      used = start + byteCount
      return Region(buffer: last, offset: start, byteCount: byteCount)
    }
    let buffer = try pool.take(atLeast: byteCount)
    buffers.append(buffer)
    used = byteCount
    return Region(buffer: buffer, offset: 0, byteCount: byteCount)
  }

  /// Four bytes a value: index data, written now.
  mutating func region<T: FixedWidthInteger>(copying values: [T]) throws(Failure) -> Region {
    let bytes = values.count * MemoryLayout<T>.size
    let region = try region(byteCount: max(bytes, 4))
    values.withUnsafeBytes { source in
      if let base = source.baseAddress {
        (region.buffer.contents() + region.offset).copyMemory(from: base, byteCount: bytes)
      }
    }
    return region
  }
}
