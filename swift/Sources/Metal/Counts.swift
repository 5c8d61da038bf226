import CEmulator
import Glibc

/// The numbers of calls that a command buffer received.
struct EncoderCalls: Equatable, Sendable {
  var dispatches = 0
  var barriers = 0
  var pipelines = 0
  var buffers = 0
  var bytes = 0
  var threadgroupMemory = 0

  static func + (a: EncoderCalls, b: EncoderCalls) -> EncoderCalls {
    EncoderCalls(
      dispatches: a.dispatches + b.dispatches, barriers: a.barriers + b.barriers, pipelines: a.pipelines + b.pipelines,
      buffers: a.buffers + b.buffers, bytes: a.bytes + b.bytes,
      threadgroupMemory: a.threadgroupMemory + b.threadgroupMemory)
  }
}

/// The work of Swift's runtime on this thread for callers of the emulation, without the work inside the emulation.
struct HostWork: Equatable, Sendable {
  var allocations: UInt64 = 0
  var retains: UInt64 = 0
  var releases: UInt64 = 0

  static var now: HostWork {
    let work = emulator_work_now()
    return HostWork(allocations: work.allocations, retains: work.retains, releases: work.releases)
  }

  /// Begins to count, for the rest of the process; false if this Swift's runtime cannot.
  static func begin() -> Bool { emulator_work_begin() != 0 }

  /// Leaves out the work of `body`.
  @inline(__always) static func without<Result>(_ body: () throws -> Result) rethrows -> Result {
    emulator_work_pause()
    defer { emulator_work_resume() }
    return try body()
  }

  static func - (a: HostWork, b: HostWork) -> HostWork {
    HostWork(allocations: a.allocations &- b.allocations, retains: a.retains &- b.retains, releases: a.releases &- b.releases)
  }
}

/// A file with a line of JSON for each committed command buffer: the encoder's calls, the host's work from the making of
/// the command buffer to its commit (`encoding`), and all work since the commit before (`all`), on the assumption that one
/// thread commits. GATED_DELTA_EMULATOR_COUNTS names the file.
final class CountsFile: @unchecked Sendable {
  private let file: UnsafeMutablePointer<FILE>
  private var last = HostWork()

  /// Nil if the file cannot be written or nothing can be counted.
  init?(path: String) {
    guard HostWork.begin(), let file = fopen(path, "a") else { return nil }
    setvbuf(file, nil, _IOLBF, 0)
    self.file = file
  }

  deinit { fclose(file) }

  func write(_ calls: EncoderCalls, from start: HostWork, to end: HostWork) {
    func object(_ members: KeyValuePairs<String, String>) -> String {
      "{" + members.map { "\"\($0.key)\": \($0.value)" }.joined(separator: ", ") + "}"
    }
    func object(_ work: HostWork) -> String {
      object(["allocations": "\(work.allocations)", "retains": "\(work.retains)", "releases": "\(work.releases)"])
    }
    let line = object([
      "dispatches": "\(calls.dispatches)", "barriers": "\(calls.barriers)",
      "setComputePipelineState": "\(calls.pipelines)", "setBuffer": "\(calls.buffers)", "setBytes": "\(calls.bytes)",
      "setThreadgroupMemoryLength": "\(calls.threadgroupMemory)", "encoding": object(end - start),
      "all": object(end - last),
    ])
    last = end
    fputs(line + "\n", file)
  }
}
