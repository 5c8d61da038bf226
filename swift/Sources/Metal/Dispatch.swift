import CEmulator

/// One dispatch as it was encoded: everything bound at that moment, kept alive until it has run.
struct Dispatch {
  enum Value {
    case buffer(EmulatedBuffer, offset: Int)
    case bytes([UInt8])
  }
  struct Argument {
    var index: Int
    var value: Value
    var isWritten: Bool

    /// Where in memory it starts: two buffers may lie over the same memory.
    var address: UInt? {
      if case .buffer(let buffer, let offset) = value { UInt(bitPattern: buffer.contents() + offset) } else { nil }
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

  /// Memory that this dispatch may write and another one of its group is bound to as well.
  struct SharedPlace {
    var buffer: EmulatedBuffer
    var offset: Int
    var problem: String

    /// What is there now. A megabyte tells enough of any pool.
    var contents: [UInt8] {
      let count = min(buffer.length - offset, 1 << 20)
      return [UInt8](UnsafeRawBufferPointer(start: buffer.contents() + offset, count: count))
    }
  }

  /// Where a barrier is missing if this dispatch does write. An argument that an option switches off may well share its
  /// memory with another's, since nobody touches it.
  func written(sharedWith group: [Dispatch]) -> [SharedPlace] {
    guard group.count > 1 else { return [] }
    var places: [SharedPlace] = []
    for ours in arguments where ours.isWritten {
      guard case .buffer(let buffer, let offset) = ours.value else { continue }
      for other in group where other.number != number {
        for theirs in other.arguments where theirs.address == ours.address {
          places.append(
            SharedPlace(
              buffer: buffer, offset: offset,
              problem: "\(kernel): \(pipeline.describe(ours.index)) is written, and is the memory of \(other.kernel): "
                + "\(other.pipeline.describe(theirs.index)), with no barrier between the two"))
        }
      }
    }
    return places
  }

  /// The emulator's message, or nil.
  func run() -> String? {
    let device = pipeline.function.device
    var buffers: [emu_buffer] = []
    // Copies of setBytes' data, alive until the dispatch is over.
    var copies: [UnsafeMutableRawBufferPointer] = []
    defer { for copy in copies { copy.deallocate() } }

    for argument in arguments {
      switch argument.value {
      case .buffer(let buffer, let offset):
        buffers.append(
          emu_buffer(
            pointer: buffer.contents(), bytes: UInt64(buffer.length), offset: UInt64(offset),
            index: UInt32(argument.index), flags: 0))
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
        return device.take(device.functions.dispatch(pipeline.function.handle, &info))
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

  /// `reverse` or `random:SEED`; all else is forward.
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
