import Synchronization

/// The two words that a device shares with JavaScript: how many submissions have finished, and how many have failed.
///
/// They are never freed or reused: JavaScript holds a plain view of them, which outlives the device, and reading a
/// word that means something else by then would be worse than 64 bytes a device.
struct StatusWords: @unchecked Sendable {
  private let words: UnsafeMutablePointer<Atomic<UInt32>>

  init() {
    // A cache line of its own, so that polling one device does not slow another down.
    let line = UnsafeMutableRawPointer.allocate(byteCount: 64, alignment: 64)
    words = line.bindMemory(to: Atomic<UInt32>.self, capacity: 16)
    for index in 0..<16 { (words + index).initialize(to: Atomic(0)) }
  }

  var pointer: UnsafePointer<Int32> { UnsafePointer(UnsafeRawPointer(words).assumingMemoryBound(to: Int32.self)) }

  /// The failures first: whoever sees a submission finished also sees that it failed.
  func publish(finished: UInt64, failed: UInt64) {
    words[1].store(UInt32(truncatingIfNeeded: failed), ordering: .releasing)
    words[0].store(UInt32(truncatingIfNeeded: finished), ordering: .releasing)
  }
}
