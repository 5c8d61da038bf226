import CEmulator

/// A buffer that a command buffer keeps, or only knows.
struct BufferReference {
  private let kept: EmulatedBuffer?
  private weak var known: EmulatedBuffer?

  init(_ buffer: EmulatedBuffer, keeps: Bool) {
    kept = keeps ? buffer : nil
    known = buffer
  }

  /// Nil if it was released.
  var buffer: EmulatedBuffer? { kept ?? known }
}

/// One dispatch as it was encoded: everything bound at that moment.
struct Dispatch {
  enum Value {
    case buffer(BufferReference, offset: Int)
    case bytes([UInt8])
  }
  struct Argument {
    var index: Int
    var value: Value
    var isWritten: Bool

    /// Its start in memory: two buffers may share memory.
    var address: UInt? {
      guard case .buffer(let reference, let offset) = value, let buffer = reference.buffer else { return nil }
      return UInt(bitPattern: buffer.contents() + offset)
    }

    /// The memory that the kernel may reach: up to the buffer's end, because only the kernel knows how much it uses.
    var extent: Range<UInt>? {
      guard case .buffer(let reference, let offset) = value, let buffer = reference.buffer, let address else { return nil }
      return address..<(address + UInt(buffer.length - offset))
    }
  }
  /// In its command buffer.
  var number: Int
  var pipeline: EmulatedPipeline
  /// In order of index.
  var arguments: [Argument]
  var threadgroupBytes: [UInt32]
  var threadgroups: MTLSize
  var threads: MTLSize

  var kernel: String { pipeline.function.name }

  /// Memory from the start of each argument that may be written, or that may only be read, to its buffer's end.
  func extents(written: Bool) -> [Range<UInt>] {
    arguments.compactMap { $0.isWritten == written ? $0.extent : nil }
  }

  /// Runs this one in a group of dispatches without a barrier between them: `together` numbers the group, 0 for the first
  /// dispatch; the others may write `written` and only read `read`. Adds its memory accesses to `accesses`. Returns the
  /// emulator's message, or nil.
  func run(
    together: inout UInt64, accesses: inout UInt64, written: [Range<UInt>], read: [Range<UInt>]
  ) -> String? {
    let device = pipeline.function.device
    var buffers: [emu_buffer] = []
    // Copies of setBytes' data, alive until the dispatch is over.
    var copies: [UnsafeMutableRawBufferPointer] = []
    var held: [EmulatedBuffer] = []
    defer { withExtendedLifetime(held) {} }
    defer { for copy in copies { copy.deallocate() } }

    for argument in arguments {
      switch argument.value {
      case .buffer(let reference, let offset):
        guard let buffer = reference.buffer else {
          return "\(pipeline.describe(argument.index)) was released before the command buffer had completed"
        }
        held.append(buffer)
        // Memory that all dispatches only read is never in conflict; memory that this one writes must not even be read by others.
        let conflicting = argument.isWritten ? written + read : written
        let isShared = argument.extent.map { extent in conflicting.contains { $0.overlaps(extent) } } ?? false
        buffers.append(
          emu_buffer(
            pointer: buffer.contents(), bytes: UInt64(buffer.length), offset: UInt64(offset),
            index: UInt32(argument.index), flags: isShared ? UInt32(EMU_BUFFER_SHARED) : 0))
      case .bytes(let bytes):
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 16)
        copy.copyBytes(from: bytes)
        copies.append(copy)
        buffers.append(
          emu_buffer(
            pointer: copy.baseAddress, bytes: UInt64(bytes.count), offset: 0, index: UInt32(argument.index),
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
        return withUnsafeMutablePointer(to: &together) { together in
          withUnsafeMutablePointer(to: &accesses) { accesses in
            info.together = together
            info.accesses = accesses
            return device.take(device.functions.dispatch(pipeline.function.handle, &info))
          }
        }
      }
    }
  }
}

/// The order in which dispatches without a barrier between them run: a GPU may choose any, so the emulation follows the
/// order that it uses for lanes.
enum DispatchOrder: Sendable {
  case forward
  case reverse
  case random(seed: UInt64)

  /// `reverse` or `random:SEED`; anything else is forward.
  init(_ text: String) {
    if text == "reverse" {
      self = .reverse
    } else if text.hasPrefix("random:") {
      self = .random(seed: UInt64(text.dropFirst(7)) ?? 0)
    } else {
      self = .forward
    }
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
