import CGatedDelta
import GatedDeltaTypes
import Threading

@_cdecl("gd_commit")
public func commit(_ handle: UInt64, _ ticket: UnsafeMutablePointer<UInt64>?) -> gd_status {
  boundary("commit") { () throws(Failure) in
    let committed = try Caller.device(handle).commit()
    ticket?.pointee = committed
    return GD_OK
  }
}

@_cdecl("gd_discard")
public func discard(_ handle: UInt64) -> gd_status {
  boundary("discard") { () throws(Failure) in
    try Caller.device(handle).discard()
    return GD_OK
  }
}

@_cdecl("gd_poll")
public func poll(_ handle: UInt64, _ ticket: UInt64) -> gd_status {
  boundary("poll") { () throws(Failure) in
    try Caller.device(handle).queue.poll(ticket) ? GD_OK : GD_PENDING
  }
}

@_cdecl("gd_wait")
public func wait(_ handle: UInt64, _ ticket: UInt64, _ timeout: UInt64) -> gd_status {
  boundary("wait") { () throws(Failure) in
    let device = try Caller.device(handle)
    let deadline = Deadline(timeout: timeout)
    guard try device.queue.wait(ticket, until: deadline, assistedBy: device.backend) else {
      throw Failure(
        .timeout, expected: "submission \(ticket) to finish within \(timeout) ns", received: "no end yet")
    }
    return GD_OK
  }
}

@_cdecl("gd_notifier")
public func makeNotifier(_ handle: UInt64, _ socket: UnsafeMutablePointer<Int32>?) -> gd_status {
  boundary("notifier") { () throws(Failure) in
    let device = try Caller.device(handle)
    try Caller.require(socket, "socket").pointee = try device.queue.makeNotifier()
    return GD_OK
  }
}

@_cdecl("gd_notify")
public func notify(_ handle: UInt64, _ ticket: UInt64) -> gd_status {
  boundary("notify") { () throws(Failure) in
    try Caller.device(handle).queue.notify(ticket) ? GD_PENDING : GD_OK
  }
}

@_cdecl("gd_plan_create")
public func createPlan(_ handle: UInt64, _ result: UnsafeMutablePointer<UInt64>?) -> gd_status {
  boundary("planCreate") { () throws(Failure) in
    let device = try Caller.device(handle)
    let result = try Caller.require(result, "plan")
    let plan = try HandleTable.shared.add(.plan(Plan(device: device)))
    device.adopt(plan)
    result.pointee = plan.rawValue
    return GD_OK
  }
}

@_cdecl("gd_plan_run")
public func runPlan(_ handle: UInt64, _ ticket: UnsafeMutablePointer<UInt64>?) -> gd_status {
  boundary("planRun") { () throws(Failure) in
    let committed = try Caller.plan(handle).run()
    ticket?.pointee = committed
    return GD_OK
  }
}

@_cdecl("gd_plan_prepare")
public func preparePlan(_ handle: UInt64) -> gd_status {
  boundary("planPrepare") { () throws(Failure) in
    try Caller.plan(handle).prepare()
    return GD_OK
  }
}

@_cdecl("gd_plan_poll")
public func pollPlan(_ handle: UInt64) -> gd_status {
  boundary("planPoll") { () throws(Failure) in
    try Caller.plan(handle).isPrepared() ? GD_OK : GD_PENDING
  }
}

@_cdecl("gd_plan_release")
public func releasePlan(_ handle: UInt64) -> gd_status {
  boundary("planRelease") { () throws(Failure) in
    let plan = try Caller.plan(handle)
    _ = HandleTable.shared.take(Handle(rawValue: handle))
    plan.device.forget(Handle(rawValue: handle))
    return GD_OK
  }
}
