import CGatedDelta
import GatedDeltaTypes

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The source of an op's index data. JavaScript may write to it at any moment, so it is copied once and only the copy
/// is used.
enum IndexSource: Sendable {
  /// A pointer, which is valid only during the call.
  case copied([Int32])
  /// In a buffer: every replay of a plan reads it again. The extent is checked; the offset is in bytes.
  case buffer(Buffer, offset: Int, count: Int)

  var isVariable: Bool {
    switch self {
    case .copied: false
    case .buffer: true
    }
  }

  func read() -> [Int32] {
    switch self {
    case .copied(let values): values
    case .buffer(let buffer, let offset, let count): IndexSource.copy(buffer.memory.pointer + offset, count)
    }
  }

  /// True if a fresh read would give `values`. Compares in place, so that a replay copies only changed data.
  func holds(_ values: [Int32]) -> Bool {
    switch self {
    case .copied(let own): return own == values
    case .buffer(let buffer, let offset, let count):
      guard values.count == count else { return false }
      return values.withUnsafeBytes { bytes in
        guard let start = bytes.baseAddress else { return true }
        return memcmp(start, buffer.memory.pointer + offset, bytes.count) == 0
      }
    }
  }

  /// The pointer need not be aligned.
  static func copy(_ pointer: UnsafeRawPointer, _ count: Int) -> [Int32] {
    [Int32](unsafeUninitializedCapacity: count) { values, initialized in
      if let start = values.baseAddress, count > 0 { memcpy(start, pointer, count &* 4) }
      initialized = count
    }
  }
}

extension gd_index {
  var isAbsent: Bool { buffer == 0 && pointer == nil && count == 0 }
}

extension Validator {
  /// For index data that has no default.
  mutating func requiredIndex(
    _ given: gd_index, _ name: StaticString, count: Int, _ unit: StaticString
  ) throws(Failure) -> IndexSource {
    guard let index = try index(given, name, count: count, unit) else { throw Validator.missing(name) }
    return index
  }

  static func missing(_ name: StaticString) -> Failure {
    Failure(.invalidArgument, argument: "\(name)", expected: "index data", received: "none")
  }

  /// Index data of exactly `count` elements, or nil if it is absent.
  /// - Parameter unit: the name of the elements, for messages.
  mutating func index(
    _ given: gd_index, _ name: StaticString, count: Int, _ unit: StaticString = "elements"
  ) throws(Failure) -> IndexSource? {
    guard given.buffer != 0 || given.pointer != nil else {
      guard given.count == 0 else {
        throw Failure(
          .invalidArgument, argument: "\(name)", expected: "index data",
          received: "a count of \(given.count) without data")
      }
      return nil
    }
    guard given.count == UInt64(count) else {
      throw Failure(.shape, argument: "\(name)", expected: "\(count) \(unit)", received: "\(given.count)")
    }
    guard given.buffer != 0 else {
      guard let pointer = given.pointer else { return nil }
      return .copied(IndexSource.copy(pointer, count))
    }
    guard given.pointer == nil else {
      throw Failure(.invalidArgument, argument: "\(name)", expected: "a buffer or a pointer", received: "both")
    }
    let buffer = try self.buffer(given.buffer, name)
    // It is read before a submission's files are checked.
    guard !buffer.memory.isReadOnly else { throw Validator.onlyRead("\(name)", "memory of the library or the caller") }
    let available = UInt64(buffer.memory.byteCount)
    guard given.offset % 4 == 0 else {
      throw Failure(
        .range, argument: "\(name)", expected: "an offset that is a multiple of 4 bytes", received: "\(given.offset)")
    }
    guard given.offset <= available, UInt64(count) &* 4 <= available &- given.offset else {
      throw Failure(
        .shape, argument: "\(name)", expected: "\(count) elements inside the buffer of \(available) bytes",
        received: "an offset of \(given.offset) bytes")
    }
    return .buffer(buffer, offset: Int(given.offset), count: count)
  }
}
