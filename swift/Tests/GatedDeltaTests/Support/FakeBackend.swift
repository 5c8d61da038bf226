import CGatedDelta
import GatedDeltaTypes
import Threading

@testable import GatedDelta

/// Memory that says when it goes.
final class FakeMemory: Memory, @unchecked Sendable {
  private let onEnd: @Sendable () -> Void

  init(pointer: UnsafeMutableRawPointer, byteCount: Int, origin: Origin, onEnd: @escaping @Sendable () -> Void) {
    self.onEnd = onEnd
    super.init(pointer: pointer, byteCount: byteCount, origin: origin)
  }

  deinit {
    onEnd()
    if case .own = origin { pointer.deallocate() }
  }
}

/// A backend that runs nothing: it keeps submissions until the test finishes them.
final class FakeBackend: Backend, @unchecked Sendable {
  private let mutex = Lock()
  private var kept: [any Submission] = []
  private var live = 0
  private var wrappedLive = 0
  private var closes = 0
  private var assists = 0
  private var stops: [UInt64] = []

  /// The failure of `check`, by the op's name.
  var refusal: (op: String, failure: Failure)?
  /// Whether `submit` finishes at once, and `assist` its argument.
  var finishesAtOnce = false
  var finishesOnAssist = false

  let description = DeviceDescription(
    backend: .cpu, name: "Ein Gerät", isa: "none", threads: 3, emulated: true)

  var submissions: [any Submission] { locked { kept } }
  var liveMemories: Int { locked { live } }
  var liveWrapped: Int { locked { wrappedLive } }
  var closeCount: Int { locked { closes } }
  var assistCount: Int { locked { assists } }
  var stopsFrom: [UInt64] { locked { stops } }

  /// Takes the oldest submission that is still kept.
  func next() -> (any Submission)? {
    locked { kept.isEmpty ? nil : kept.removeFirst() }
  }

  func allocate(byteCount: Int) throws(Failure) -> Memory {
    let pointer = UnsafeMutableRawPointer.allocate(byteCount: max(byteCount, 1), alignment: 16384)
    pointer.initializeMemory(as: UInt8.self, repeating: 0, count: byteCount)
    return remember(pointer, byteCount, .own)
  }

  func wrap(pointer: UnsafeMutableRawPointer, byteCount: Int) throws(Failure) -> Memory {
    remember(pointer, byteCount, .wrapped)
  }

  func map(_ window: FileWindow) throws(Failure) -> Memory {
    remember(window.pointer, window.byteCount, .mapped(window))
  }

  func join(_ pieces: JoinedPieces) throws(Failure) -> Memory {
    remember(.allocate(byteCount: 1, alignment: 1), pieces.byteCount, .joined(pieces))
  }

  func check(_ op: Op) throws(Failure) {
    if let refusal, refusal.op == op.name { throw refusal.failure }
  }

  func submit(_ submission: any Submission) {
    if finishesAtOnce { submission.finish(nil) } else { locked { kept.append(submission) } }
  }

  /// Preparations that go on, with the names of their ops, until the test ends them.
  var preparations: [(ops: [String], done: @Sendable (Failure?) -> Void)] = []

  func prepare(_ ops: [EncodedOp], _ done: @escaping @Sendable (Failure?) -> Void) {
    preparations.append((ops.map { "\($0.name)" }, done))
  }

  func assist(_ submission: any Submission) {
    locked { assists += 1 }
    if finishesOnAssist { submission.finish(nil) }
  }

  /// Finishes the kept submissions from `ticket` on.
  func stop(from ticket: UInt64) {
    let stopped = locked {
      stops.append(ticket)
      let stopped = kept.filter { $0.ticket >= ticket }
      kept.removeAll { $0.ticket >= ticket }
      return stopped
    }
    for submission in stopped { submission.finish(Failure(.state, expected: "an owner", received: "none")) }
  }

  func close() { locked { closes += 1 } }

  private func remember(_ pointer: UnsafeMutableRawPointer, _ byteCount: Int, _ origin: Memory.Origin) -> Memory {
    let isWrapped = if case .wrapped = origin { true } else { false }
    locked {
      live += 1
      if isWrapped { wrappedLive += 1 }
    }
    return FakeMemory(pointer: pointer, byteCount: byteCount, origin: origin) { [weak self] in
      guard let self else { return }
      self.locked {
        self.live -= 1
        if isWrapped { self.wrappedLive -= 1 }
      }
    }
  }

  private func locked<Result>(_ body: () -> Result) -> Result {
    mutex.lock()
    defer { mutex.unlock() }
    return body()
  }
}
