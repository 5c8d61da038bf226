import CGatedDelta
import GatedDeltaTypes
import Testing
import Threading

@testable import GatedDelta

/// Devices that end with no thread waiting for them, and threads that end with devices open.
@Suite struct EndTests {
  /// Encodes and commits an op, into memory of the library's or into memory that is wrapped.
  static func commit(_ fixture: Fixture, wrapped: Bool) throws -> UInt64 {
    var op = try fixture.linear()
    if wrapped {
      let bytes = 1 << 20
      let memory = UnsafeMutableRawPointer.allocate(byteCount: bytes, alignment: 16384)
      var handle: UInt64 = 0
      try #require(gd_buffer_wrap(fixture.device, memory, UInt64(bytes), &handle) == GD_OK)
      op.out.buffer = handle
    }
    try #require(gd_encode_linear(fixture.device, &op) == GD_OK)
    return fixture.commit()
  }

  @Test func workOnTheLibrarysOwnMemoryGoesOnWithoutADevice() throws {
    let fixture = try Fixture()
    for _ in 0..<3 { _ = try Self.commit(fixture, wrapped: false) }
    let plan = try fixture.plan()
    var op = try fixture.linear()
    #expect(gd_encode_linear(fixture.device, &op) == GD_OK)
    #expect(gd_device_abandon(fixture.device) == GD_OK)
    #expect(fixture.backend.stopsFrom.isEmpty && fixture.backend.closeCount == 1)
    #expect(fixture.backend.submissions.count == 3, "what was not committed is dropped, the rest stays")
    #expect(gd_plan_run(plan, nil) == GD_ERROR_HANDLE)
    #expect(gd_device_abandon(fixture.device) == GD_ERROR_HANDLE)
    while let submission = fixture.backend.next() { submission.finish(nil) }
  }

  @Test func workIsStoppedFromTheFirstOnThatTouchesOtherMemory() throws {
    let fixture = try Fixture()
    for wrapped in [false, false, true, false, true, false] { _ = try Self.commit(fixture, wrapped: wrapped) }
    #expect(gd_device_abandon(fixture.device) == GD_OK)
    #expect(fixture.backend.stopsFrom == [3] && fixture.backend.closeCount == 1)
    #expect(fixture.backend.submissions.map(\.ticket) == [1, 2])
    while let submission = fixture.backend.next() { submission.finish(nil) }
  }

  @Test func aPlansReplayTouchesWhatThePlanDoes() throws {
    let fixture = try Fixture()
    let plan = try fixture.plan()
    var op = try fixture.linear()
    let memory = UnsafeMutableRawPointer.allocate(byteCount: 1 << 20, alignment: 16384)
    try #require(gd_buffer_wrap(fixture.device, memory, 1 << 20, &op.x.buffer) == GD_OK)
    try #require(gd_encode_linear(plan, &op) == GD_OK && gd_plan_run(plan, nil) == GD_OK)
    #expect(gd_device_abandon(fixture.device) == GD_OK)
    #expect(fixture.backend.stopsFrom == [1])
  }

  /// The backend takes its time, as a GPU does with committed work: `abandon` returns after the last submission that
  /// touches the memory, not before.
  @Test func stoppedWorkIsWaitedFor() throws {
    let backend = SlowBackend()
    let thread = try #require(ThreadState.current)
    let device = Device(backend: backend, owner: thread.id)
    let view = TensorView(
      memory: try backend.wrap(pointer: .allocate(byteCount: 64, alignment: 64), byteCount: 64), offset: 0, dtype: .f32,
      tokenStride: 8, headStride: 8)
    let op = Op.linear(Linear(rows: 1, x: view, matrix: Matrix(format: .f32, rows: 1, columns: 8, weight: view), out: view))
    for borrows in [true, true, false] {
      device.encode(EncodedOp(op, name: "linear", borrows: borrows))
      _ = try device.commit()
    }
    device.abandon()
    #expect(backend.finished >= 2)
  }

  @Test func aThreadsEndTakesItsDevicesAndWhatItHasLent() throws {
    let seen = Seen()
    #expect(
      startThread {
        do {
          let fixture = try Fixture()
          try #require(ThreadState.current).ownedDevices += 1
          _ = try Self.commit(fixture, wrapped: true)
          _ = try Self.commit(fixture, wrapped: false)
          seen.set(fixture)
        } catch {
          Issue.record(error)
        }
      })
    let fixture = seen.wait()
    let end = Clock.now + 20_000_000_000
    while fixture.backend.closeCount == 0, Clock.now < end { _ = 0 }
    #expect(fixture.backend.closeCount == 1 && fixture.backend.stopsFrom == [1])
    #expect(fixture.backend.submissions.isEmpty)
    // Wrapped memory is released, with the operations and the handle that held it; the library's own has its owner.
    #expect(fixture.backend.liveWrapped == 0)
    #expect(gd_device_describe(fixture.device, nil) == GD_ERROR_HANDLE)
  }

  @Test func statusWordsAreUsedAgain() throws {
    var seen: Set<UnsafePointer<Int32>> = []
    for _ in 0..<5000 {
      let words = StatusWords()
      #expect(words.pointer[0] == 0 && words.pointer[1] == 0)
      words.publish(finished: 7, failed: 3)
      #expect(words.pointer[0] == 7 && words.pointer[1] == 3)
      seen.insert(words.pointer)
    }
    #expect(seen.count < 2500, "lines of devices that are gone serve again")
  }

  @Test func noTwoDevicesHaveOneSerialNumber() throws {
    var serials: Set<UInt64> = []
    for _ in 0..<1000 { serials.insert(Device(backend: FakeBackend(), owner: 0).serial) }
    #expect(serials.count == 1000)
  }

  @Test func aBufferOfAClosedDeviceIsNoLaterDevices() throws {
    var accepted = 0
    for _ in 0..<300 {
      var first: UInt64 = 0
      var second: UInt64 = 0
      var buffer: UInt64 = 0
      var pointer: UnsafeMutableRawPointer?
      var options = gd_device_options(
        size: UInt32(MemoryLayout<gd_device_options>.size), version: 1, backend: UInt32(GD_BACKEND_CPU), threads: 1)
      try #require(gd_device_open(&options, &first) == GD_OK)
      try #require(gd_buffer_create(first, 1024, &buffer, &pointer) == GD_OK)
      #expect(gd_device_close(first) == GD_OK)
      try #require(gd_device_open(&options, &second) == GD_OK)
      let tensor = gd_tensor(buffer: buffer, .f32, [1, 8])
      let out = gd_tensor(buffer: buffer, offset: 512, .f32, [1, 1])
      var op = gd_linear(
        size: UInt32(MemoryLayout<gd_linear>.size), version: 1, weight_format: 0, activations: 0, products: 0, reserved: 0,
        x: tensor, weight: tensor, scales: gd_tensor(), biases: gd_tensor(), residual: gd_tensor(), out: out)
      if gd_encode_linear(second, &op) == GD_OK { accepted += 1 }
      gd_device_close(second)
      gd_buffer_release(buffer)
    }
    #expect(accepted == 0)
  }
}

/// Hands a fixture from the thread that made it to the test's.
final class Seen: @unchecked Sendable {
  private let mutex = Lock()
  private var fixture: Fixture?

  func set(_ fixture: Fixture) {
    mutex.lock()
    self.fixture = fixture
    mutex.wakeAll()
    mutex.unlock()
  }

  func wait() -> Fixture {
    mutex.lock()
    defer { mutex.unlock() }
    while true {
      if let fixture { return fixture }
      mutex.sleep()
    }
  }
}

/// Finishes submissions one after another, on a thread of its own that begins when it is told to stop.
private final class SlowBackend: Backend, @unchecked Sendable {
  let description = DeviceDescription(backend: .metal, name: "slow", isa: "", threads: 0, emulated: true)
  private let mutex = Lock()
  private var kept: [any Submission] = []
  private var count = 0

  var finished: Int {
    mutex.lock()
    defer { mutex.unlock() }
    return count
  }

  func allocate(byteCount: Int) throws(Failure) -> Memory { try wrap(pointer: .allocate(byteCount: 1, alignment: 1), byteCount: 1) }
  func wrap(pointer: UnsafeMutableRawPointer, byteCount: Int) throws(Failure) -> Memory {
    Memory(pointer: pointer, byteCount: byteCount, origin: .wrapped)
  }

  func map(_ window: FileWindow) throws(Failure) -> Memory {
    Memory(pointer: window.pointer, byteCount: window.byteCount, origin: .mapped(window))
  }

  func join(_ pieces: JoinedPieces) throws(Failure) -> Memory {
    Memory(pointer: .allocate(byteCount: 1, alignment: 1), byteCount: pieces.byteCount, origin: .joined(pieces))
  }
  func check(_ op: Op) throws(Failure) {}
  func submit(_ submission: any Submission) { kept.append(submission) }
  func assist(_ submission: any Submission) {}
  func close() {}

  func stop(from ticket: UInt64) {
    let kept = self.kept
    _ = startThread {
      for submission in kept {
        let until = Clock.now + 5_000_000
        while Clock.now < until {}
        self.mutex.lock()
        self.count += 1
        self.mutex.unlock()
        submission.finish(nil)
      }
    }
  }
}
