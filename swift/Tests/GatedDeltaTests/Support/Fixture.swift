import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// A device over a fake backend, with its handle. Lives and dies on the test's thread, which owns the device.
final class Fixture {
  let backend = FakeBackend()
  let device: UInt64
  private var buffers: [UInt64] = []

  init() throws {
    let state = try #require(ThreadState.current)
    device = try HandleTable.shared.add(.device(Device(backend: backend, owner: state.id))).rawValue
  }

  deinit {
    // Nothing a test forgot to finish may block the others.
    backend.finishesOnAssist = true
    gd_device_close(device)
    for buffer in buffers { gd_buffer_release(buffer) }
  }

  func buffer(_ bytes: Int) throws -> (handle: UInt64, memory: UnsafeMutableRawPointer) {
    var handle: UInt64 = 0
    var pointer: UnsafeMutableRawPointer?
    try #require(gd_buffer_create(device, UInt64(bytes), &handle, &pointer) == GD_OK)
    buffers.append(handle)
    return (handle, try #require(pointer))
  }

  /// A contiguous tensor in a new buffer that just holds it, or that lacks some elements at its end.
  func tensor(_ dtype: DType, _ shape: Int..., lacking: Int = 0) throws -> gd_tensor {
    let count = shape.reduce(1, *) - lacking
    return gd_tensor(buffer: try buffer(count * dtype.size).handle, dtype, shape)
  }

  /// Index data in a new buffer.
  func index(_ values: [Int32]) throws -> (index: gd_index, memory: UnsafeMutablePointer<Int32>) {
    let (handle, memory) = try buffer(values.count * 4)
    let typed = memory.bindMemory(to: Int32.self, capacity: values.count)
    for (position, value) in values.enumerated() { typed[position] = value }
    return (gd_index(buffer: handle, offset: 0, pointer: nil, count: UInt64(values.count)), typed)
  }

  func commit() -> UInt64 {
    var ticket = UInt64.max
    #expect(gd_commit(device, &ticket) == GD_OK)
    return ticket
  }

  /// Commits and returns the ops that reached the backend.
  func committedOps() throws -> [Op] {
    let before = backend.submissions.count
    _ = commit()
    let submissions = backend.submissions
    return submissions.count == before ? [] : try #require(submissions.last).ops.map(\.op)
  }

  func plan() throws -> UInt64 {
    var plan: UInt64 = 0
    try #require(gd_plan_create(device, &plan) == GD_OK)
    return plan
  }
}

/// The result of `gd_last_error` on this thread.
struct LastError: CustomStringConvertible {
  let message, op, argument, expected, received: String

  init() {
    let texts = (0..<5).map { String(cString: gd_last_error($0)) }
    message = texts[0]
    op = texts[1]
    argument = texts[2]
    expected = texts[3]
    received = texts[4]
  }

  var description: String { message }
}

/// One broken rule: the change that breaks it, the expected status, and the argument that is named.
struct Refusal<Descriptor>: Sendable {
  let name: String
  let status: gd_status
  let argument: String
  let change: @Sendable (Fixture, inout Descriptor) throws -> Void

  init(
    _ name: String, _ status: Int32, _ argument: String,
    _ change: @escaping @Sendable (Fixture, inout Descriptor) throws -> Void
  ) {
    self.name = name
    self.status = status
    self.argument = argument
    self.change = change
  }

  /// Applies the change to a valid descriptor and expects the refusal, with no side effects.
  func verify(
    op: String, _ valid: (Fixture) throws -> Descriptor, _ encode: (UInt64, UnsafePointer<Descriptor>?) -> gd_status
  ) throws {
    let fixture = try Fixture()
    var descriptor = try valid(fixture)
    try change(fixture, &descriptor)
    #expect(encode(fixture.device, &descriptor) == status, "\(name): \(LastError())")
    let error = LastError()
    #expect(error.argument == argument, "\(name): \(error)")
    #expect(error.op == op && !error.expected.isEmpty && !error.received.isEmpty, "\(name): \(error)")
    #expect(try fixture.committedOps().isEmpty, "\(name): something was encoded")
    let plan = try fixture.plan()
    #expect(encode(plan, &descriptor) == status, "\(name): a plan accepts it")
    #expect(gd_plan_run(plan, nil) == GD_OK)
    #expect(fixture.backend.submissions.isEmpty, "\(name): something was recorded")
  }
}
