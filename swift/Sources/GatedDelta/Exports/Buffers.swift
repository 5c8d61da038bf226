import CGatedDelta
import GatedDeltaTypes

/// The largest buffer, in bytes.
let largestBuffer = UInt64(GD_LARGEST_BUFFER)

@_cdecl("gd_buffer_create")
public func createBuffer(
  _ handle: UInt64, _ bytes: UInt64, _ result: UnsafeMutablePointer<UInt64>?,
  _ pointer: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> gd_status {
  boundary("bufferCreate") { () throws(Failure) in
    let device = try Caller.device(handle)
    let result = try Caller.require(result, "buffer")
    let pointer = try Caller.require(pointer, "pointer")
    let memory = try device.backend.allocate(byteCount: checkedBytes(bytes))
    result.pointee = try register(memory, device)
    pointer.pointee = memory.pointer
    return GD_OK
  }
}

@_cdecl("gd_buffer_wrap")
public func wrapBuffer(
  _ handle: UInt64, _ pointer: UnsafeMutableRawPointer?, _ bytes: UInt64, _ result: UnsafeMutablePointer<UInt64>?
) -> gd_status {
  boundary("bufferWrap") { () throws(Failure) in
    let device = try Caller.device(handle)
    let pointer = try Caller.require(pointer, "pointer")
    let result = try Caller.require(result, "buffer")
    let byteCount = try checkedBytes(bytes)
    guard !UInt(bitPattern: pointer).addingReportingOverflow(UInt(byteCount)).overflow else {
      throw Failure(.shape, argument: "bytes", expected: "memory inside the address space", received: "\(bytes)")
    }
    result.pointee = try register(device.backend.wrap(pointer: pointer, byteCount: byteCount), device)
    try Caller.state().hasForeign = true
    return GD_OK
  }
}

@_cdecl("gd_buffer_release")
public func releaseBuffer(_ handle: UInt64) -> gd_status {
  boundary("bufferRelease") { () throws(Failure) in
    try release(handle)
    return GD_OK
  }
}

/// Runs whenever the engine collects garbage, and has no caller to report to.
@_cdecl("gd_buffer_deallocate")
public func deallocateBuffer(_ pointer: UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?) {
  do throws(Failure) {
    try release(UInt64(UInt(bitPattern: context)))
  } catch {
    // Already released explicitly: nothing is left to do.
  }
}

private func checkedBytes(_ bytes: UInt64) throws(Failure) -> Int {
  guard bytes <= largestBuffer else {
    throw Failure(
      .shape, argument: "bytes", expected: "at most \(largestBuffer) (4 GiB - 16 KiB)", received: "\(bytes)")
  }
  return Int(bytes)
}

func register(_ memory: Memory, _ device: Device) throws(Failure) -> UInt64 {
  memory.count(in: device.usage)
  return try HandleTable.shared.add(.buffer(Buffer(memory: memory, device: device.serial, owner: device.owner))).rawValue
}

func release(_ handle: UInt64) throws(Failure) {
  let table = HandleTable.shared
  table.lock()
  // A variable, so that the memory is released after the table has been unlocked.
  let buffer: Buffer
  do throws(Failure) {
    buffer = try table.buffer(handle, "buffer")
  } catch {
    table.unlock()
    throw error
  }
  table.remove(Handle(rawValue: handle))
  table.unlock()
  buffer.markReleased()
}
