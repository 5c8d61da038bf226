import Synchronization

/// Memory that JavaScript and a device share. References keep it alive: that of the handle table until the buffer is
/// released, those of encoded and pending work until it has finished. Backends subclass it.
open class Memory: @unchecked Sendable {
  /// The source of the bytes.
  public enum Origin: Sendable {
    /// Pages of the library's own.
    case own
    /// Borrowed from the caller (`gd_buffer_wrap`): never freed here.
    case wrapped
    /// A file's (`gd_file_map`): read-only.
    case mapped(FileWindow)
    /// Pieces of mapped memory (`gd_buffer_join`): read-only. The pointer is that of the backend's table of the pieces.
    case joined(JoinedPieces)
  }

  public let pointer: UnsafeMutableRawPointer
  public let byteCount: Int
  public let origin: Origin
  private var usage: MemoryUsage?

  public init(pointer: UnsafeMutableRawPointer, byteCount: Int, origin: Origin) {
    self.pointer = pointer
    self.byteCount = byteCount
    self.origin = origin
  }

  deinit { usage?.add(-byteCount, origin) }

  public var isWrapped: Bool {
    if case .wrapped = origin { true } else { false }
  }

  /// Not made by the library: the caller's or a file's.
  public var isForeign: Bool {
    if case .own = origin { false } else { true }
  }

  /// Whether it belongs to mapped files, which nothing may write to.
  public var isReadOnly: Bool {
    switch origin {
    case .own, .wrapped: false
    case .mapped, .joined: true
    }
  }

  /// Its pieces, if they do not follow one another.
  public var pieces: JoinedPieces? {
    if case .joined(let pieces) = origin { pieces } else { nil }
  }

  /// Counts this memory as long as it exists. Called once, before anything else uses the memory.
  public func count(in usage: MemoryUsage) {
    self.usage = usage
    usage.add(byteCount, origin)
  }
}

extension [MappedFile] {
  /// Adds the files that are not in the list yet: a submission reads a few files, hundreds of times.
  public mutating func unite(_ others: [MappedFile]) {
    for other in others where !contains(where: { $0 === other }) { append(other) }
  }
}

/// Bytes of a device's memory that exist now, including those that only pending work keeps.
public final class MemoryUsage: Sendable {
  private let ownBytes = Atomic<Int>(0)
  private let mappedBytes = Atomic<Int>(0)

  public init() {}

  public var own: Int { ownBytes.load(ordering: .relaxed) }
  public var mapped: Int { mappedBytes.load(ordering: .relaxed) }

  fileprivate func add(_ bytes: Int, _ origin: Memory.Origin) {
    switch origin {
    case .own: ownBytes.wrappingAdd(bytes, ordering: .relaxed)
    case .mapped: mappedBytes.wrappingAdd(bytes, ordering: .relaxed)
    case .wrapped, .joined: break
    }
  }
}

/// A validated tensor: every element that its op can touch lies inside `memory`. The op defines the dimensions; strides
/// are in elements and never 0.
public struct TensorView: Sendable {
  public var memory: Memory
  /// Bytes from the start of `memory`.
  public var offset: Int
  public var dtype: DType
  public var tokenStride: Int
  public var headStride: Int

  public init(memory: Memory, offset: Int, dtype: DType, tokenStride: Int, headStride: Int) {
    self.memory = memory
    self.offset = offset
    self.dtype = dtype
    self.tokenStride = tokenStride
    self.headStride = headStride
  }

  public var pointer: UnsafeMutableRawPointer { memory.pointer + offset }
}
