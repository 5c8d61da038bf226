import Synchronization
import Threading

/// The two words that a device shares with its caller: the number of finished submissions, and of failed ones. They
/// belong to the device until it is closed, or abandoned and done with its work; then a later device reuses them.
final class StatusWords: @unchecked Sendable {
  private let words = StatusLines.shared.take()

  deinit { StatusLines.shared.giveBack(words) }

  var pointer: UnsafePointer<Int32> { UnsafePointer(UnsafeRawPointer(words).assumingMemoryBound(to: Int32.self)) }

  /// Failures are written first: a reader that sees a submission finished also sees that it failed.
  func publish(finished: UInt64, failed: UInt64) {
    words[1].store(UInt32(truncatingIfNeeded: failed), ordering: .releasing)
    words[0].store(UInt32(truncatingIfNeeded: finished), ordering: .releasing)
  }
}

/// Memory for status words, one cache line per device, so that polling one device does not slow another down. It is
/// never returned to the system: a caller that reads the words of a closed device reads a number, though perhaps
/// another device's.
private final class StatusLines: @unchecked Sendable {
  typealias Line = UnsafeMutablePointer<Atomic<UInt32>>

  static let shared = StatusLines()
  private static let lineBytes = 64
  private static let linesPerSlab = 256

  private let mutex = Lock()
  private var free: [Line] = []

  /// Two words of 0.
  func take() -> Line {
    mutex.lock()
    defer { mutex.unlock() }
    if free.isEmpty { addSlab() }
    let line = free.removeLast()
    line[0].store(0, ordering: .relaxed)
    line[1].store(0, ordering: .relaxed)
    return line
  }

  func giveBack(_ line: Line) {
    mutex.lock()
    free.append(line)
    mutex.unlock()
  }

  private func addSlab() {
    let bytes = StatusLines.lineBytes &* StatusLines.linesPerSlab
    let slab = UnsafeMutableRawPointer.allocate(byteCount: bytes, alignment: StatusLines.lineBytes)
    let words = slab.bindMemory(to: Atomic<UInt32>.self, capacity: bytes / 4)
    for index in 0..<bytes / 4 { (words + index).initialize(to: Atomic(0)) }
    for line in (0..<StatusLines.linesPerSlab).reversed() { free.append(words + line &* (StatusLines.lineBytes / 4)) }
  }
}
