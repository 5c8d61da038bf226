import Synchronization

/// Words that one thread writes while another reads, as JavaScript may.
final class SharedWords: @unchecked Sendable {
  let words: UnsafeMutablePointer<Int32>

  init(_ count: Int) {
    words = .allocate(capacity: count)
    words.initialize(repeating: 0, count: count)
  }

  deinit { words.deallocate() }
}

final class StopFlag: Sendable {
  private let flag = Atomic<Bool>(false)
  var isSet: Bool { flag.load(ordering: .acquiring) }
  func set() { flag.store(true, ordering: .releasing) }
}
