import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

@Suite struct PlanTests {
  /// A plan of one convolution over two sequences, with index data in a buffer.
  static func ragged(_ fixture: Fixture) throws -> (plan: UInt64, starts: UnsafeMutablePointer<Int32>, handle: UInt64) {
    let plan = try fixture.plan()
    var op = try fixture.causalConv1d(sequences: 2)
    let (index, memory) = try fixture.index([0, 2, 6])
    op.cu_seqlens = index
    op.write_slots = try fixture.index([3, 1]).index
    try #require(gd_encode_causal_conv1d(plan, &op) == GD_OK)
    return (plan, memory, index.buffer)
  }

  static func run(_ plan: UInt64) -> UInt64? {
    var ticket: UInt64 = 0
    return gd_plan_run(plan, &ticket) == GD_OK ? ticket : nil
  }

  @Test func aPlanRunsItsOpsAgainAndAgain() throws {
    let fixture = try Fixture()
    let (plan, _, _) = try Self.ragged(fixture)
    var norm = try fixture.gatedRMSNorm()
    #expect(gd_encode_gated_rms_norm(plan, &norm) == GD_OK)
    #expect(fixture.backend.submissions.isEmpty, "recording submits nothing")
    for ticket in 1...3 as ClosedRange<UInt64> { #expect(Self.run(plan) == ticket) }
    for submission in fixture.backend.submissions {
      #expect(submission.ops.map(\.op.name) == ["causalConv1d", "gatedRmsNorm"])
    }
    #expect(fixture.backend.submissions[2].ops[0].op.sequences?.starts == [0, 2, 6])
    // Ops may be added later, too.
    #expect(gd_encode_gated_rms_norm(plan, &norm) == GD_OK)
    #expect(Self.run(plan) == 4)
    #expect(fixture.backend.submissions.last?.ops.count == 3)
  }

  @Test func aReplayReadsIndexDataAnewAndChecksIt() throws {
    let fixture = try Fixture()
    let (plan, starts, _) = try Self.ragged(fixture)
    _ = Self.run(plan)
    starts[1] = 5
    _ = Self.run(plan)
    starts[1] = 7
    #expect(Self.run(plan) == nil)
    let error = LastError()
    #expect(error.op == "causalConv1d" && error.argument == "cuSeqlens[2]", "\(error)")
    starts[1] = 5
    _ = Self.run(plan)
    // Submitted work keeps the values it was checked with.
    #expect(fixture.backend.submissions.map { $0.ops[0].op.sequences?.starts } == [[0, 2, 6], [0, 5, 6], [0, 5, 6]])
    #expect(fixture.backend.submissions.map { $0.ops[0].op.sequences?.writeSlots } == [[3, 1], [3, 1], [3, 1]])
  }

  @Test func aReplayThatIsRefusedChangesNothing() throws {
    let fixture = try Fixture()
    let (plan, first, _) = try Self.ragged(fixture)
    var op = try fixture.causalConv1d(sequences: 2)
    let (index, second) = try fixture.index([0, 1, 6])
    op.cu_seqlens = index
    #expect(gd_encode_causal_conv1d(plan, &op) == GD_OK)
    first[1] = 4
    second[1] = -9
    #expect(Self.run(plan) == nil)
    #expect(fixture.backend.submissions.isEmpty && fixture.commit() == 0)
    second[1] = 3
    #expect(Self.run(plan) == 1)
    #expect(fixture.backend.submissions[0].ops.map { $0.op.sequences?.starts } == [[0, 4, 6], [0, 3, 6]])
  }

  @Test func indexDataAtAPointerIsCopiedWhenRecorded() throws {
    let fixture = try Fixture()
    let plan = try fixture.plan()
    let words = SharedWords(3)
    (words.words[1], words.words[2]) = (2, 6)
    var op = try fixture.causalConv1d(sequences: 2)
    op.cu_seqlens = gd_index(buffer: 0, offset: 0, pointer: words.words, count: 3)
    #expect(gd_encode_causal_conv1d(plan, &op) == GD_OK)
    words.words[1] = 99
    #expect(Self.run(plan) == 1)
    #expect(fixture.backend.submissions[0].ops[0].op.sequences?.starts == [0, 2, 6])
  }

  @Test func aReleasedBufferStopsThePlanThatUsesIt() throws {
    let fixture = try Fixture()
    let (plan, _, index) = try Self.ragged(fixture)
    var norm = try fixture.gatedRMSNorm()
    #expect(gd_encode_gated_rms_norm(plan, &norm) == GD_OK)
    #expect(Self.run(plan) == 1)
    #expect(gd_buffer_release(norm.z.buffer) == GD_OK)
    #expect(Self.run(plan) == nil)
    #expect(LastError().op == "gatedRmsNorm" && LastError().argument == "z" && LastError().received.contains("released"))
    #expect(gd_buffer_release(index) == GD_OK)
    #expect(gd_plan_run(plan, nil) == GD_ERROR_HANDLE)
    #expect(LastError().op == "causalConv1d" && LastError().argument == "cuSeqlens")
  }

  @Test func whatWasEncodedComesFirstUnderTheSameTicket() throws {
    let fixture = try Fixture()
    let (plan, starts, _) = try Self.ragged(fixture)
    try SubmissionTests.encode(fixture)
    starts[1] = -1
    #expect(Self.run(plan) == nil)
    #expect(fixture.backend.submissions.isEmpty)
    starts[1] = 1
    #expect(Self.run(plan) == 1)
    #expect(fixture.backend.submissions.map { $0.ops.map(\.op.name) } == [["linear", "causalConv1d"]])
    #expect(fixture.commit() == 1)
  }

  @Test func anEmptyPlanSubmitsNothing() throws {
    let fixture = try Fixture()
    let plan = try fixture.plan()
    #expect(Self.run(plan) == 0)
    try SubmissionTests.encode(fixture)
    #expect(Self.run(plan) == 1)
    #expect(Self.run(plan) == 1)
    #expect(fixture.backend.submissions.count == 1)
  }

  @Test func aPlanHoldsItsMemoryUntilItIsReleased() throws {
    let fixture = try Fixture()
    let plan = try fixture.plan()
    var op = try fixture.linear()
    #expect(gd_encode_linear(plan, &op) == GD_OK)
    for buffer in [op.x.buffer, op.weight.buffer, op.out.buffer] { #expect(gd_buffer_release(buffer) == GD_OK) }
    #expect(fixture.backend.liveMemories == 3)
    #expect(gd_plan_run(plan, nil) == GD_ERROR_HANDLE)
    #expect(gd_plan_release(plan) == GD_OK)
    #expect(fixture.backend.liveMemories == 0)
    #expect(gd_plan_run(plan, nil) == GD_ERROR_HANDLE && gd_plan_release(plan) == GD_ERROR_HANDLE)
  }

  @Test func aPlanIsPreparedWithoutBeingRun() throws {
    let fixture = try Fixture()
    let plan = try fixture.plan()
    var norm = try fixture.gatedRMSNorm()
    try #require(gd_encode_gated_rms_norm(plan, &norm) == GD_OK)
    #expect(gd_plan_poll(plan) == GD_ERROR_STATE && LastError().argument == "plan")
    #expect(gd_plan_prepare(plan) == GD_OK && gd_plan_poll(plan) == GD_PENDING)
    try #require(fixture.backend.preparations.map(\.ops) == [["gatedRmsNorm"]])
    #expect(fixture.backend.submissions.isEmpty && Self.run(plan) == 1, "it runs whether it is prepared or not")
    fixture.backend.preparations[0].done(nil)
    #expect(gd_plan_poll(plan) == GD_OK && gd_plan_poll(plan) == GD_OK)
    // The last one counts, also where an earlier one ends after it.
    #expect(gd_plan_prepare(plan) == GD_OK && gd_plan_prepare(plan) == GD_OK)
    fixture.backend.preparations[2].done(
      Failure(.device, op: "gatedRmsNorm", expected: "the kernel gd_norm to compile", received: "no compiler"))
    fixture.backend.preparations[1].done(nil)
    #expect(gd_plan_poll(plan) == GD_ERROR_DEVICE)
    let error = LastError()
    #expect(error.op == "gatedRmsNorm" && error.received == "no compiler", "\(error)")
  }

  @Test func aPlanMayGoWhileItIsPrepared() throws {
    let fixture = try Fixture()
    let plan = try fixture.plan()
    #expect(gd_plan_prepare(plan) == GD_OK && gd_plan_release(plan) == GD_OK)
    #expect(gd_plan_poll(plan) == GD_ERROR_HANDLE && gd_plan_prepare(plan) == GD_ERROR_HANDLE)
    fixture.backend.preparations[0].done(nil)
  }
}
