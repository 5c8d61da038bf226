import CPUKernels

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The processor and its cores.
enum Processor {
  /// Cores that this process may use, at least 1: those in its affinity mask, but no more than its CPU quota.
  static let usableCores: Int = {
    let cores = Int(gd_cpu_usable_cores())
    #if os(Linux)
      if let quota = CPUQuota.cores() { return min(cores, quota) }
    #endif
    return cores
  }()

  /// The name of the processor.
  static let name: String = {
    var bytes = [CChar](repeating: 0, count: 128)
    #if canImport(Darwin)
      var size = bytes.count
      if sysctlbyname("machdep.cpu.brand_string", &bytes, &size, nil, 0) != 0 { bytes[0] = 0 }
    #else
      gd_cpu_brand(&bytes, bytes.count)
    #endif
    bytes[bytes.count - 1] = 0
    let name = bytes.withUnsafeBufferPointer { buffer in buffer.baseAddress.map { String(cString: $0) } ?? "" }
    if !name.isEmpty { return name }
    #if arch(arm64)
      return "arm64 processor"
    #elseif arch(x86_64)
      return "x86-64 processor"
    #else
      return "processor"
    #endif
  }()
}
