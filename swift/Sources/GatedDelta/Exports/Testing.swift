// Functions for tests of a clone. A published library does not have them: see Package.swift.
import CGatedDelta
import GatedDeltaTypes
import MetalBackend
import Threading

@_cdecl("gd_test_fail")
public func testFail(_ handle: UInt64, _ stage: UInt32, _ count: UInt64) -> gd_status {
  boundary("testFail") { () throws(Failure) in
    let device = try Caller.device(handle)
    switch stage {
    case UInt32(GD_TEST_ENCODE): device.faults.encode = count
    case UInt32(GD_TEST_COMMIT): device.faults.commit = count
    case UInt32(GD_TEST_RUN): device.faults.run = count
    default:
      throw Failure(
        .invalidArgument, argument: "stage", expected: "encode (1), commit (2) or run (3)", received: "\(stage)")
    }
    return GD_OK
  }
}

@_cdecl("gd_test_emulate")
public func testEmulate(_ path: UnsafePointer<CChar>?) -> gd_status {
  boundary("testEmulate") { () throws(Failure) in
    try MetalBackend.emulate(String(cString: try Caller.require(path, "path")))
    return GD_OK
  }
}
