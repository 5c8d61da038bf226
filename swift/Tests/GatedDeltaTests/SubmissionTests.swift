import CGatedDelta
import GatedDeltaTypes
import Testing
import Threading

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

@testable import GatedDelta

@Suite struct SubmissionTests {
  static func encode(_ fixture: Fixture) throws {
    var op = try fixture.linear()
    try #require(gd_encode_linear(fixture.device, &op) == GD_OK)
  }

  static func status(_ fixture: Fixture) throws -> UnsafePointer<Int32> {
    var info = gd_device_info()
    info.size = UInt32(MemoryLayout<gd_device_info>.size)
    info.version = 1
    try #require(gd_device_describe(fixture.device, &info) == GD_OK)
    return try #require(info.status)
  }

  @Test func ticketsCountCommits() throws {
    let fixture = try Fixture()
    #expect(fixture.commit() == 0)
    #expect(gd_poll(fixture.device, 0) == GD_OK && gd_wait(fixture.device, 0, 0) == GD_OK)
    for ticket in 1...3 as ClosedRange<UInt64> {
      try Self.encode(fixture)
      try Self.encode(fixture)
      #expect(fixture.commit() == ticket)
      #expect(fixture.commit() == ticket)
      #expect(fixture.backend.submissions.last?.ops.count == 2)
    }
    #expect(gd_poll(fixture.device, 3) == GD_PENDING)
    #expect(gd_poll(fixture.device, 4) == GD_ERROR_RANGE)
    #expect(LastError().argument == "ticket")
    #expect(gd_wait(fixture.device, .max, .max) == GD_ERROR_RANGE)
  }

  @Test func discardDropsWhatWasEncoded() throws {
    let fixture = try Fixture()
    try Self.encode(fixture)
    let held = fixture.backend.liveMemories
    #expect(held == 3)
    #expect(gd_discard(fixture.device) == GD_OK)
    #expect(fixture.commit() == 0 && fixture.backend.submissions.isEmpty)
  }

  @Test func statusWordsFollowTheSubmissionsInOrder() throws {
    let fixture = try Fixture()
    let status = try Self.status(fixture)
    for _ in 0..<3 {
      try Self.encode(fixture)
      _ = fixture.commit()
    }
    let submissions = fixture.backend.submissions
    // Out of order: the second one counts only when the first one has finished, too.
    submissions[1].finish(Failure(.device, op: "linear", expected: "luck", received: "none"))
    #expect(status[0] == 0 && gd_poll(fixture.device, 2) == GD_PENDING)
    submissions[0].finish(nil)
    #expect(status[0] == 2 && status[1] == 1)
    #expect(gd_poll(fixture.device, 1) == GD_OK)
    submissions[0].finish(Failure(.device, expected: "", received: ""))
    #expect(status[0] == 2 && status[1] == 1, "finishing twice changes nothing")
    #expect(gd_poll(fixture.device, 3) == GD_PENDING)
    submissions[2].finish(nil)
    #expect(status[0] == 3 && gd_poll(fixture.device, 3) == GD_OK)
  }

  /// Bytes that can be read from a socket without waiting; 0 at its end, nil if there are none.
  static func read(_ socket: Int32) -> Int? {
    var bytes = [UInt8](repeating: 0, count: 16)
    let count = recv(socket, &bytes, bytes.count, 0)
    return count < 0 ? nil : count
  }

  @Test func aByteComesWhenASubmissionThatWasAskedForHasFinished() throws {
    let fixture = try Fixture()
    #expect(gd_notify(fixture.device, 0) == GD_ERROR_STATE)
    #expect(gd_notifier(fixture.device, nil) == GD_ERROR_INVALID_ARGUMENT)
    var socket: Int32 = -1
    try #require(gd_notifier(fixture.device, &socket) == GD_OK)
    defer { close(socket) }
    for _ in 0..<4 {
      try Self.encode(fixture)
      _ = fixture.commit()
    }
    let submissions = fixture.backend.submissions
    #expect(gd_notify(fixture.device, 0) == GD_OK)
    #expect(gd_notify(fixture.device, 5) == GD_ERROR_RANGE && LastError().argument == "ticket")
    #expect(gd_notify(fixture.device, 3) == GD_PENDING && gd_notify(fixture.device, 2) == GD_PENDING)
    submissions[0].finish(nil)
    #expect(Self.read(socket) == nil)
    submissions[1].finish(Failure(.device, op: "linear", expected: "luck", received: "none"))
    #expect(Self.read(socket) == 1 && gd_notify(fixture.device, 2) == GD_OK)
    submissions[2].finish(nil)
    #expect(Self.read(socket) == nil, "asking is for one end")
    #expect(gd_notify(fixture.device, 4) == GD_PENDING)
    var other: Int32 = -1
    try #require(gd_notifier(fixture.device, &other) == GD_OK)
    defer { close(other) }
    #expect(Self.read(socket) == 0, "replaced")
    submissions[3].finish(nil)
    #expect(Self.read(other) == 1)
  }

  @Test func aSocketWithoutAReaderHarmsNobody() throws {
    let fixture = try Fixture()
    var socket: Int32 = -1
    try #require(gd_notifier(fixture.device, &socket) == GD_OK)
    close(socket)
    for ticket in 1...3 as ClosedRange<UInt64> {
      try Self.encode(fixture)
      _ = fixture.commit()
      #expect(gd_notify(fixture.device, ticket) == GD_PENDING)
      fixture.backend.next()?.finish(nil)
      #expect(gd_poll(fixture.device, ticket) == GD_OK)
    }
  }

  @Test func aFailureBelongsToItsTicketAndStays() throws {
    let fixture = try Fixture()
    try Self.encode(fixture)
    let ticket = fixture.commit()
    fixture.backend.next()?.finish(Failure(.device, op: "linear", expected: "luck", received: "none"))
    for _ in 0..<2 {
      #expect(gd_poll(fixture.device, ticket) == GD_ERROR_DEVICE)
      #expect(LastError().message == "linear: expected luck, got none")
      #expect(gd_wait(fixture.device, ticket, 0) == GD_ERROR_DEVICE)
    }
    #expect(gd_poll(fixture.device, 0) == GD_OK)
  }

  @Test func ofFailuresTheLastThousandAreKept() throws {
    let fixture = try Fixture()
    let count = UInt64(FailureLog.limit) + 10
    for _ in 0..<count {
      try Self.encode(fixture)
      _ = fixture.commit()
      fixture.backend.next()?.finish(Failure(.internal, expected: "a", received: "b"))
    }
    #expect(gd_poll(fixture.device, 10) == GD_ERROR_STATE)
    #expect(LastError().argument == "ticket")
    #expect(gd_poll(fixture.device, 11) == GD_ERROR_INTERNAL)
    #expect(gd_poll(fixture.device, count) == GD_ERROR_INTERNAL)
    #expect(gd_poll(fixture.device, 0) == GD_OK)
  }

  @Test func waitingEndsAtTheTimeout() throws {
    let fixture = try Fixture()
    try Self.encode(fixture)
    let ticket = fixture.commit()
    #expect(gd_wait(fixture.device, ticket, 0) == GD_ERROR_TIMEOUT)
    #expect(gd_wait(fixture.device, ticket, 2_000_000) == GD_ERROR_TIMEOUT)
    #expect(LastError().op == "wait" && fixture.backend.assistCount == 0)
    fixture.backend.next()?.finish(nil)
    #expect(gd_wait(fixture.device, ticket, 0) == GD_OK)
  }

  @Test func waitingForEverLendsAHandAndEndsWithTheWork() async throws {
    let box = SubmissionBox()
    async let finishing: Void = { await box.finishWhenThere() }()
    do {
      let fixture = try Fixture()
      for _ in 0..<2 {
        try Self.encode(fixture)
        _ = fixture.commit()
      }
      let submissions = fixture.backend.submissions
      box.put(submissions)
      #expect(gd_wait(fixture.device, 2, .max) == GD_OK)
      #expect(gd_poll(fixture.device, 1) == GD_OK)
    }
    await finishing
    do {
      let fixture = try Fixture()
      fixture.backend.finishesOnAssist = true
      try Self.encode(fixture)
      #expect(gd_wait(fixture.device, fixture.commit(), .max) == GD_OK)
      #expect(fixture.backend.assistCount == 1)
    }
  }

  @Test func closingWaits() throws {
    let fixture = try Fixture()
    fixture.backend.finishesOnAssist = true
    let plan = try fixture.plan()
    try Self.encode(fixture)
    _ = fixture.commit()
    try Self.encode(fixture)
    #expect(gd_device_close(fixture.device) == GD_OK)
    #expect(fixture.backend.closeCount == 1 && fixture.backend.assistCount == 1)
    #expect(gd_plan_run(plan, nil) == GD_ERROR_HANDLE)
    #expect(gd_commit(fixture.device, nil) == GD_ERROR_HANDLE)
    #expect(gd_device_close(fixture.device) == GD_ERROR_HANDLE)
    #expect(fixture.backend.closeCount == 1)
  }

  @Test func deadlinesBeyondTimeAreNever() {
    #expect(Deadline(timeout: .max).isNever && Deadline(timeout: .max - 1).isNever)
    #expect(Deadline(timeout: UInt64(Int64.max)).isNever)
    #expect(Deadline(timeout: 0).remaining == 0)
    let century = Deadline(timeout: 3_000_000_000_000_000_000)
    #expect(!century.isNever && century.remaining ?? 0 > 2_000_000_000_000_000_000)
  }
}

/// Hands submissions from the thread that waits for them to one that finishes them.
final class SubmissionBox: @unchecked Sendable {
  private let lock = Lock()
  private var submissions: [any Submission] = []

  func put(_ submissions: [any Submission]) {
    lock.lock()
    self.submissions = submissions
    lock.unlock()
  }

  private func take() -> [any Submission] {
    lock.lock()
    defer { lock.unlock() }
    return submissions
  }

  func finishWhenThere() async {
    var found = take()
    while found.isEmpty {
      await Task.yield()
      found = take()
    }
    for submission in found { submission.finish(nil) }
  }
}
