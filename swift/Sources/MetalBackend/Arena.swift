import GatedDeltaTypes
import Metal
import Synchronization

/// A buffer of scratch memory.
struct Chunk: @unchecked Sendable {
  let buffer: any MTLBuffer
  let contents: UnsafeMutableRawPointer
  let byteCount: Int

  init(_ buffer: any MTLBuffer) {
    self.buffer = buffer
    contents = buffer.contents()
    byteCount = buffer.length
  }
}

/// Buffers for what lives only as long as a submission: index data, resolved gates, copies of slots. A submission takes
/// pieces front to back and never reuses one, so pieces need no barriers among themselves; when it has finished its
/// buffers serve the next.
final class ArenaPool: @unchecked Sendable {
  /// Enough for the index data and gates of a decode step.
  static let chunkBytes = 256 << 10
  /// Scratch that a long prefill took may never be needed again.
  static let keptBytes = 64 << 20

  private struct State {
    var free: [Chunk] = []
    var bytes = 0
  }
  private let device: any MTLDevice
  private let state = Mutex(State())

  init(device: any MTLDevice) { self.device = device }

  func take(atLeast byteCount: Int) throws(Failure) -> Chunk {
    let reused: Chunk? = state.withLock { state in
      guard let index = state.free.firstIndex(where: { $0.byteCount >= byteCount }) else { return nil }
      let chunk = state.free.remove(at: index)
      state.bytes -= chunk.byteCount
      return chunk
    }
    if let reused { return reused }
    let length = max(Self.chunkBytes, ceilDiv(byteCount, 16384) * 16384)
    guard length <= device.maxBufferLength, let made = device.makeBuffer(length: length, options: .storageModeShared)
    else {
      throw Failure(.outOfMemory, expected: "\(length) bytes of scratch memory", received: "no buffer")
    }
    return Chunk(made)
  }

  func giveBack(_ chunks: [Chunk]) {
    state.withLock { state in
      for chunk in chunks where state.bytes + chunk.byteCount <= Self.keptBytes {
        state.free.append(chunk)
        state.bytes += chunk.byteCount
      }
    }
  }
}

/// One submission's share of the arena.
struct Arena {
  private let pool: ArenaPool
  private(set) var chunks: [Chunk] = []
  private var used = 0

  init(pool: ArenaPool) { self.pool = pool }

  mutating func region(byteCount: Int) throws(Failure) -> Region {
    // 256: Metal's strictest offset alignment.
    let start = ceilDiv(used, 256) * 256
    if let last = chunks.last, start + byteCount <= last.byteCount {
      used = start + byteCount
      return Region(buffer: last.buffer, contents: last.contents, offset: start, byteCount: byteCount)
    }
    let chunk = try pool.take(atLeast: byteCount)
    chunks.append(chunk)
    used = byteCount
    return Region(buffer: chunk.buffer, contents: chunk.contents, offset: 0, byteCount: byteCount)
  }

  /// Index data, written now. Never empty, so that it can be bound.
  mutating func region<T: FixedWidthInteger>(copying values: [T]) throws(Failure) -> Region {
    let bytes = values.count * MemoryLayout<T>.size
    let region = try region(byteCount: max(bytes, 4))
    values.withUnsafeBytes { source in
      if let base = source.baseAddress, let last = chunks.last {
        (last.contents + region.offset).copyMemory(from: base, byteCount: bytes)
      }
    }
    return region
  }
}
