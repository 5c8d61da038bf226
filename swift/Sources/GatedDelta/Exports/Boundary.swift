import CGatedDelta
import GatedDeltaTypes

/// Every export runs inside this: a failure becomes a status code and this thread's last error.
///
/// The exports are `@_cdecl` functions of the header's names; their Swift names differ, so that a Swift program (the
/// tests) can call the C functions through the header. Their types are those of the header as Swift imports it: if they
/// differ, a program that sees both does not compile. Each export checks everything before it writes anything.
func boundary(_ op: StaticString = "", _ body: () throws(Failure) -> gd_status) -> gd_status {
  do throws(Failure) {
    return try body()
  } catch {
    var failure = error
    if failure.op.isEmpty { failure.op = "\(op)" }
    ThreadState.current?.remember(failure)
    return failure.code.rawValue
  }
}

enum Caller {
  static func state() throws(Failure) -> ThreadState {
    guard let state = ThreadState.current else {
      throw Failure(.outOfMemory, expected: "memory for the calling thread's state", received: "none")
    }
    return state
  }

  /// A pointer that the caller must pass.
  static func require<Pointer>(_ pointer: Pointer?, _ argument: StaticString) throws(Failure) -> Pointer {
    guard let pointer else {
      throw Failure(.invalidArgument, argument: "\(argument)", expected: "a pointer", received: "NULL")
    }
    return pointer
  }

  /// The device of a handle, for its owner. The table is locked only for the lookup.
  static func device(_ handle: UInt64) throws(Failure) -> Device {
    let thread = try state().id
    HandleTable.shared.lock()
    defer { HandleTable.shared.unlock() }
    let device = try HandleTable.shared.device(handle)
    try device.checkOwner(thread)
    return device
  }

  static func plan(_ handle: UInt64) throws(Failure) -> Plan {
    let thread = try state().id
    HandleTable.shared.lock()
    defer { HandleTable.shared.unlock() }
    let plan = try HandleTable.shared.plan(handle)
    try plan.device.checkOwner(thread)
    return plan
  }

  static func target(_ raw: UInt64) throws(Failure) -> Target {
    let thread = try state().id
    HandleTable.shared.lock()
    defer { HandleTable.shared.unlock() }
    let target: Target
    switch HandleTable.shared.object(Handle(rawValue: raw)) {
    case .device(let device): target = .device(device)
    case .plan(let plan): target = .plan(plan)
    case .buffer:
      throw Failure(.handle, argument: "target", expected: "a device or a plan", received: "a buffer")
    case nil:
      throw Failure(
        .handle, argument: "target", expected: "a device or a plan",
        received: raw == 0 ? "none" : "one that was released, or no handle of this library")
    }
    try target.device.checkOwner(thread)
    return target
  }
}
