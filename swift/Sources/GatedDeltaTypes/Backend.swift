public enum BackendKind: UInt32, Sendable {
  case cpu = 1
  case metal = 2
}

public struct DeviceDescription: Sendable {
  public var backend: BackendKind
  /// The name of the hardware, such as `AMD EPYC` or `Apple M3 (emulated)`; at most 127 bytes of UTF-8.
  public var name: String
  /// The instruction set of the CPU backend; empty elsewhere.
  public var isa: String
  public var threads: Int
  public var emulated: Bool

  public init(backend: BackendKind, name: String, isa: String, threads: Int, emulated: Bool) {
    self.backend = backend
    self.name = name
    self.isa = isa
    self.threads = threads
    self.emulated = emulated
  }
}

/// An op of a submission.
public struct EncodedOp: Sendable {
  public var op: Op
  /// The name under which the caller encoded it, such as `gatedDeltaNetInplace` for an op that runs as `gatedDelta`. A
  /// failure while it runs carries this name.
  public let name: StaticString
  /// True if it reads or writes memory that is not the library's own (`Memory.isWrapped`).
  public let borrows: Bool

  public init(_ op: consuming Op, name: StaticString, borrows: Bool) {
    self.op = op
    self.name = name
    self.borrows = borrows
  }
}

/// The ops of one commit. The backend calls `finish` once, from any thread, when the last op is done or one has failed,
/// and touches none of the submission's memory after that.
public protocol Submission: AnyObject, Sendable {
  /// Later submissions of a device have higher tickets.
  var ticket: UInt64 { get }
  var ops: [EncodedOp] { get }
  func finish(_ failure: Failure?)
}

/// One open device. Ops that reach it are valid: it checks only its own limits (`check`).
public protocol Backend: AnyObject, Sendable {
  var description: DeviceDescription { get }

  /// Zeroed, aligned to 16384 bytes.
  func allocate(byteCount: Int) throws(Failure) -> Memory
  func wrap(pointer: UnsafeMutableRawPointer, byteCount: Int) throws(Failure) -> Memory
  /// Memory over a window, which it keeps.
  func map(_ window: FileWindow) throws(Failure) -> Memory
  /// Memory over pieces, which it keeps.
  func join(_ pieces: JoinedPieces) throws(Failure) -> Memory

  /// Bytes of the largest buffer.
  var largestBuffer: Int { get }

  /// Refuses an op that this backend cannot run, before the op is encoded.
  func check(_ op: Op) throws(Failure)

  /// Runs the submission after those before it, without blocking the caller.
  func submit(_ submission: any Submission)

  /// Compiles the kernels of these ops and calls `done` once, from any thread. None of them runs, and their memory is
  /// not touched. Does not block the caller.
  func prepare(_ ops: [EncodedOp], _ done: @escaping @Sendable (Failure?) -> Void)

  /// Called by a thread that is about to block until `submission` has finished: an opportunity to run it on that
  /// thread.
  func assist(_ submission: any Submission)

  /// Ends the submissions from `ticket` on as soon as it can, without blocking: those that have not begun never begin, and
  /// running ones skip as much as possible. Each is finished, and touches no memory after that. No more work is
  /// submitted.
  func stop(from ticket: UInt64)

  /// The time that a GPU has spent on finished work since the device was opened.
  var gpuNanoseconds: UInt64 { get }

  /// Called once, and last. Pending work still runs, and the backend ends after it.
  func close()
}

extension Backend {
  /// For backends without a limit of their own.
  public var largestBuffer: Int { .max }

  /// For backends without a GPU.
  public var gpuNanoseconds: UInt64 { 0 }

  /// For backends whose kernels are compiled ahead of time.
  public func prepare(_ ops: [EncodedOp], _ done: @escaping @Sendable (Failure?) -> Void) { done(nil) }
}
