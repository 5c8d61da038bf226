import GatedDeltaTypes
import Metal
import Synchronization

/// Buffers for data that lives only as long as a submission: index data, resolved gates, copies of slots. A submission
/// takes pieces front to back and never reuses one, so pieces need no barriers among themselves; when it has finished,
/// its buffers serve the next one.
final class ArenaPool: @unchecked Sendable {
  /// A submission begins with one page, since hundreds may be in flight, and doubles its chunks up to `largestStep`.
  static let smallestStep = 16 << 10
  static let largestStep = 256 << 10
  /// Limits the free memory that is kept: scratch of a long prefill may never be needed again.
  static let keptBytes = 64 << 20

  private struct State {
    /// Free chunks, the smallest last.
    var free: [MetalMemory] = []
    var bytes = 0
  }
  private let device: any MTLDevice
  private let residency: Residency?
  private let state = Mutex(State())

  init(device: any MTLDevice, residency: Residency? = nil) {
    self.device = device
    self.residency = residency
  }

  /// The smallest free chunk of at least `byteCount`, else a new one of `step` or more.
  func take(atLeast byteCount: Int, step: Int = smallestStep) throws(Failure) -> MetalMemory {
    let length = max(step, ceilDiv(byteCount, Self.smallestStep) * Self.smallestStep)
    let reused: MetalMemory? = state.withLock { state in
      guard let index = state.free.lastIndex(where: { $0.byteCount >= length }) else { return nil }
      let chunk = state.free.remove(at: index)
      state.bytes -= chunk.byteCount
      return chunk
    }
    if let reused { return reused }
    guard length <= device.maxBufferLength, let made = device.makeBuffer(length: length, options: .untracked)
    else {
      throw Failure(.outOfMemory, expected: "\(length) bytes of scratch memory", received: "no buffer")
    }
    return MetalMemory(made, byteCount: made.length, .own, residency)
  }

  func giveBack(_ chunks: [MetalMemory]) {
    state.withLock { state in
      for chunk in chunks where state.bytes + chunk.byteCount <= Self.keptBytes {
        let larger = state.free.lastIndex { $0.byteCount >= chunk.byteCount }
        state.free.insert(chunk, at: larger.map { $0 + 1 } ?? 0)
        state.bytes += chunk.byteCount
      }
    }
  }
}

/// One submission's share of the arena.
struct Arena {
  private let pool: ArenaPool
  private(set) var chunks: [MetalMemory] = []
  private var used = 0
  private var step = ArenaPool.smallestStep

  init(pool: ArenaPool) { self.pool = pool }

  mutating func region(byteCount: Int) throws(Failure) -> Region {
    // 256: Metal's strictest offset alignment.
    let start = ceilDiv(used, 256) * 256
    if let last = chunks.last, start + byteCount <= last.byteCount {
      used = start + byteCount
      return Region(last, offset: start, byteCount: byteCount)
    }
    let chunk = try pool.take(atLeast: byteCount, step: step)
    step = min(2 * step, ArenaPool.largestStep)
    chunks.append(chunk)
    used = byteCount
    return Region(chunk, offset: 0, byteCount: byteCount)
  }

  /// Index data, written immediately. Never empty, so that it can be bound.
  mutating func region<T: FixedWidthInteger>(copying values: [T]) throws(Failure) -> Region {
    let bytes = values.count * MemoryLayout<T>.size
    let region = try region(byteCount: max(bytes, 4))
    values.withUnsafeBytes { source in
      if let base = source.baseAddress { region.contents.copyMemory(from: base, byteCount: bytes) }
    }
    return region
  }
}

/// A submission's scratch memory, held until its last command buffer has completed.
final class Scratch: Sendable {
  private struct State {
    var chunks: [MetalMemory] = []
  }
  private let pool: ArenaPool
  private let state = Mutex(State())

  init(pool: ArenaPool) { self.pool = pool }

  func take(_ chunks: [MetalMemory]) { state.withLock { $0.chunks = chunks } }
  func giveBack() {
    pool.giveBack(
      state.withLock { state in
        defer { state.chunks = [] }
        return state.chunks
      })
  }
}
