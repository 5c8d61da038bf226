import CGatedDelta
import GatedDeltaTypes

@_cdecl("gd_device_open")
public func openDevice(
  _ options: UnsafePointer<gd_device_options>?, _ result: UnsafeMutablePointer<UInt64>?
) -> gd_status {
  boundary("deviceOpen") { () throws(Failure) in
    let options = try Descriptors.read(options)
    let result = try Caller.require(result, "device")
    let thread = try Caller.state()
    let backend = try Backends.open(options.backend, threads: options.threads)
    let device = Device(backend: backend, owner: thread.id)
    do throws(Failure) {
      result.pointee = try HandleTable.shared.add(.device(device)).rawValue
    } catch {
      backend.close()
      throw error
    }
    thread.ownedDevices &+= 1
    return GD_OK
  }
}

@_cdecl("gd_device_describe")
public func describeDevice(_ handle: UInt64, _ result: UnsafeMutablePointer<gd_device_info>?) -> gd_status {
  boundary("deviceDescribe") { () throws(Failure) in
    let device = try Caller.device(handle)
    let result = try Caller.require(result, "info")
    var info = try Descriptors.read(UnsafePointer(result))
    let description = device.backend.description
    info.backend = description.backend.rawValue
    info.emulated = description.emulated ? 1 : 0
    info.threads = UInt32(clamping: description.threads)
    info.reserved = 0
    info.status = device.queue.status.pointer
    info.largest_buffer = min(largestBuffer, UInt64(device.backend.largestBuffer))
    withUnsafeMutableBytes(of: &info.name) { copyCString(description.name, to: $0) }
    withUnsafeMutableBytes(of: &info.isa) { copyCString(description.isa, to: $0) }
    UnsafeMutableRawPointer(result).copyMemory(from: &info, byteCount: MemoryLayout<gd_device_info>.size)
    return GD_OK
  }
}

@_cdecl("gd_device_memory")
public func deviceMemory(
  _ handle: UInt64, _ own: UnsafeMutablePointer<UInt64>?, _ mapped: UnsafeMutablePointer<UInt64>?
) -> gd_status {
  boundary("deviceMemory") { () throws(Failure) in
    let usage = try Caller.device(handle).usage
    let own = try Caller.require(own, "own")
    let mapped = try Caller.require(mapped, "mapped")
    own.pointee = UInt64(usage.own)
    mapped.pointee = UInt64(usage.mapped)
    return GD_OK
  }
}

@_cdecl("gd_device_gpu_time")
public func deviceGPUTime(_ handle: UInt64, _ nanoseconds: UnsafeMutablePointer<UInt64>?) -> gd_status {
  boundary("deviceGpuTime") { () throws(Failure) in
    let device = try Caller.device(handle)
    try Caller.require(nanoseconds, "nanoseconds").pointee = device.backend.gpuNanoseconds
    return GD_OK
  }
}

@_cdecl("gd_device_abandon")
public func abandonDevice(_ handle: UInt64) -> gd_status {
  boundary("deviceAbandon") { () throws(Failure) in
    let device = try Caller.device(handle)
    _ = HandleTable.shared.take(Handle(rawValue: handle))
    device.abandon()
    try Caller.state().ownedDevices &-= 1
    return GD_OK
  }
}

/// The hook runs on the thread that registered it.
@_cdecl("napi_register_module_v1")
public func registerModule(
  _ env: UnsafeMutableRawPointer?, _ exports: UnsafeMutableRawPointer?
) -> UnsafeMutableRawPointer? {
  EnvironmentHook.add(to: env)
  return exports
}

@_cdecl("gd_device_close")
public func closeDevice(_ handle: UInt64) -> gd_status {
  boundary("deviceClose") { () throws(Failure) in
    let device = try Caller.device(handle)
    _ = HandleTable.shared.take(Handle(rawValue: handle))
    device.close()
    try Caller.state().ownedDevices &-= 1
    return GD_OK
  }
}
