// How an emulated device is opened. Not in a published library, which loads no translated kernels: see Package.swift.
import CEmulator
import Glibc

/// From now on `MTLCreateSystemDefaultDevice()` gives the device whose translated kernels are in this library, as Apple's gives
/// the same one every time.
public func emulateMetal(kernels path: String) {
  DefaultDevice.current.withLock { current in
    if current?.path != path { current = DefaultDevice.Once(path) { EmulatedDevice.open(path) } }
  }
}

extension EmulatedDevice {
  static func open(_ path: String) -> Result<EmulatedDevice, MetalEmulationError> {
    var functions = emulator_functions()
    if let problem = emulator_load(path, &functions) { return .failure(MetalEmulationError(String(cString: problem))) }
    let settings = Settings { getenv($0).map { String(cString: $0) } }
    guard let device = EmulatedDevice(functions: functions, settings: settings) else {
      return .failure(
        MetalEmulationError("\(path): describes its kernels in another way: build it anew (`npm run emulator`)"))
    }
    return .success(device)
  }
}

extension EmulatedDevice.Settings {
  /// GATED_DELTA_EMULATOR_MAX_THREADS: `384`, or `gd_prefill:128,gd_step:96`. GATED_DELTA_EMULATOR_DELAY:
  /// microseconds. GATED_DELTA_EMULATOR_ORDER: as for the kernels' lanes. GATED_DELTA_EMULATOR_COUNTS: a file.
  /// GATED_DELTA_EMULATOR_SPEED: accesses of memory per second. GATED_DELTA_EMULATOR_PATIENCE: seconds.
  /// GATED_DELTA_EMULATOR_CORES: the GPU's cores.
  init(variable: (String) -> String?) {
    for entry in (variable("GATED_DELTA_EMULATOR_MAX_THREADS") ?? "").split(separator: ",") {
      let parts = entry.split(separator: ":")
      guard let last = parts.last, let threads = Int(last), threads > 0 else { continue }
      maxThreads[parts.count > 1 ? String(parts[0]) : ""] = threads
    }
    cores = variable("GATED_DELTA_EMULATOR_CORES").flatMap { Int($0) }.flatMap { $0 > 0 ? $0 : nil }
    delay = variable("GATED_DELTA_EMULATOR_DELAY").flatMap { UInt32($0) } ?? 0
    order = DispatchOrder(variable("GATED_DELTA_EMULATOR_ORDER") ?? "")
    counts = variable("GATED_DELTA_EMULATOR_COUNTS") ?? ""
    speed = variable("GATED_DELTA_EMULATOR_SPEED").flatMap { Double($0) }.flatMap { $0 > 0 ? $0 : nil }
    patience = variable("GATED_DELTA_EMULATOR_PATIENCE").flatMap { Double($0) } ?? .infinity
  }
}
