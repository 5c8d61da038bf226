#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif
import GatedDeltaTypes
import Synchronization

/// The state of one calling thread: an identity that is never reused (a `pthread_t` is), and its last error as C
/// strings. Plain memory behind a pthread key, allocated at a thread's first call and freed at its exit; calls that
/// succeed allocate nothing.
struct ThreadState {
  /// `gd_last_error`'s `which`.
  enum Text: UInt32, CaseIterable {
    case message, op, argument, expected, received
  }

  /// The limit of each text; longer ones are cut at a character.
  static let capacity = 1024
  private static let textsOffset = 24
  private static let byteCount = textsOffset + capacity * Text.allCases.count

  private let record: UnsafeMutableRawPointer

  /// Nil only if not even a few kilobytes can be allocated.
  static var current: ThreadState? {
    if let record = pthread_getspecific(key) { return ThreadState(record: record) }
    guard let record = calloc(1, byteCount) else { return nil }
    record.storeBytes(of: lastID.wrappingAdd(1, ordering: .relaxed).newValue, as: UInt64.self)
    pthread_setspecific(key, record)
    return ThreadState(record: record)
  }

  var id: UInt64 { record.load(as: UInt64.self) }

  /// The number of open devices that this thread owns; only threads that own some have something to clean up at exit.
  var ownedDevices: Int {
    get { record.load(fromByteOffset: 8, as: Int.self) }
    nonmutating set { record.storeBytes(of: newValue, toByteOffset: 8, as: Int.self) }
  }

  /// True if this thread has ever made buffers of memory that no ArrayBuffer owns: of its own memory, which it lends, or
  /// of a mapped file.
  var hasForeign: Bool {
    get { record.load(fromByteOffset: 16, as: Bool.self) }
    nonmutating set { record.storeBytes(of: newValue, toByteOffset: 16, as: Bool.self) }
  }

  /// Must be called when the thread ends, before memory that it has lent may be freed.
  func end() {
    guard ownedDevices > 0 || hasForeign else { return }
    HandleTable.shared.end(of: id)
    ownedDevices = 0
    hasForeign = false
  }

  func text(_ which: Text) -> UnsafePointer<CChar> {
    UnsafePointer(start(of: which).assumingMemoryBound(to: CChar.self))
  }

  func remember(_ failure: Failure) {
    store(failure.message, as: .message)
    store(failure.op, as: .op)
    store(failure.argument, as: .argument)
    store(failure.expected, as: .expected)
    store(failure.received, as: .received)
  }

  private func store(_ text: String, as which: Text) {
    copyCString(text, to: UnsafeMutableRawBufferPointer(start: start(of: which), count: ThreadState.capacity))
  }

  private func start(of which: Text) -> UnsafeMutableRawPointer {
    record + ThreadState.textsOffset + Int(which.rawValue) &* ThreadState.capacity
  }

  private static let lastID = Atomic<UInt64>(0)

  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    pthread_key_create(&key) { record in
      #if canImport(Darwin)
        let record: UnsafeMutableRawPointer? = record
      #endif
      guard let record else { return }
      ThreadState(record: record).end()
      free(record)
    }
    return key
  }()
}

/// Writes `text` and a terminating zero, cut between characters if it does not fit. `bytes` must not be empty.
func copyCString(_ text: String, to bytes: UnsafeMutableRawBufferPointer) {
  var text = text
  text.withUTF8 { units in
    // A zero inside the text would end it early for every reader.
    var end = min(units.firstIndex(of: 0) ?? units.count, bytes.count &- 1)
    // A character's bytes after the first begin with the bits 10.
    while end < units.count, units[end] & 0xc0 == 0x80 { end &-= 1 }
    bytes.copyBytes(from: units[..<end])
    UnsafeMutableRawBufferPointer(rebasing: bytes[end...]).initializeMemory(as: UInt8.self, repeating: 0)
  }
}
