import CPUKernels
import GatedDeltaTypes

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The CPU backend: C kernels for the processor's instruction set, run by the caller and one pool of threads.
public enum CPUBackend {
  /// - Parameter threads: the number of threads that work on one op at most, including the calling one; 0 means one for
  /// every core that the process may use.
  /// - Throws: `unsupported` if `GATED_DELTA_ISA` names an instruction set that is unknown or that this processor
  /// lacks, `GATED_DELTA_PAGES` is not a number of pages that kernels can ask for, or `GATED_DELTA_WIDE` is neither 0 nor 1.
  public static func open(threads: Int) throws(Failure) -> any Backend {
    let kernels: UnsafePointer<gd_cpu_kernels>
    if let name = getenv("GATED_DELTA_ISA"), name.pointee != 0 {
      kernels = try self.kernels(named: String(cString: name))
    } else if let best = gd_cpu_kernels_best() {
      kernels = best
    } else {
      throw Failure(
        .device, argument: "backend", expected: "a processor with one of \(isaNames())", received: "none of them")
    }
    try force("GATED_DELTA_PAGES", expected: "0, 4 or 8", gd_cpu_ask_by_pages)
    try force("GATED_DELTA_WIDE", expected: "0 or 1", gd_cpu_take_as_wide)
    return try open(threads: threads, kernels: kernels)
  }

  /// Passes the number in an environment variable, if it is set, to a function that returns 0 for numbers that it does not take.
  private static func force(_ name: String, expected: String, _ take: (Int32) -> Int32) throws(Failure) {
    guard let value = getenv(name), value.pointee != 0 else { return }
    let text = String(cString: value)
    guard let number = Int32(text), take(number) != 0 else {
      throw Failure(.unsupported, argument: name, expected: expected, received: text)
    }
  }

  /// The same with a given instruction set, and a given amount of work that is worth one more thread.
  static func open(
    threads: Int, kernels: UnsafePointer<gd_cpu_kernels>, leastNanoseconds: Double = Executor.worthAThread
  ) throws(Failure) -> CPUDevice {
    guard threads >= 0 else {
      throw Failure(.invalidArgument, argument: "threads", expected: "0 or more", received: "\(threads)")
    }
    let wanted = threads == 0 ? Processor.usableCores : min(threads, ThreadPool.mostParts)
    return try CPUDevice(executor: Executor(threads: wanted, kernels: kernels, leastNanoseconds: leastNanoseconds))
  }

  static func kernels(named name: String) throws(Failure) -> UnsafePointer<gd_cpu_kernels> {
    if let kernels = gd_cpu_kernels_named(name) { return kernels }
    let usable = isaNames { gd_cpu_kernels_named($0) != nil }
    throw Failure(
      .unsupported, argument: "GATED_DELTA_ISA", expected: "an instruction set of this processor: \(usable)",
      received: name)
  }

  private static func isaNames(where included: (UnsafePointer<CChar>) -> Bool = { _ in true }) -> String {
    var names: [String] = []
    var index: Int32 = 0
    while let name = gd_cpu_isa_name(index) {
      if included(name) { names.append(String(cString: name)) }
      index &+= 1
    }
    return names.joined(separator: ", ")
  }
}
