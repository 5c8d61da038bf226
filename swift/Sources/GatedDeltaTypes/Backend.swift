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
  /// What the caller encoded it as, such as `gatedDeltaNetInplace` for what is run as a `gatedDelta`. A failure while it
  /// runs carries this name.
  public let name: StaticString
  /// Whether it reads or writes memory that is not the library's own (`Memory.isWrapped`).
  public let borrows: Bool

  public init(_ op: consuming Op, name: StaticString, borrows: Bool) {
    self.op = op
    self.name = name
    self.borrows = borrows
  }
}

/// The ops of one commit. The backend calls `finish` once, from any thread, when the last op is done or one has failed;
/// of the submission's memory it touches nothing any more by then.
public protocol Submission: AnyObject, Sendable {
  /// Later submissions of a device have higher tickets.
  var ticket: UInt64 { get }
  var ops: [EncodedOp] { get }
  func finish(_ failure: Failure?)
}

/// One open device. Ops that reach it are valid: it checks only what is its own to know (`check`).
public protocol Backend: AnyObject, Sendable {
  var description: DeviceDescription { get }

  /// Zeroed, aligned to 16384 bytes.
  func allocate(byteCount: Int) throws(Failure) -> Memory
  func wrap(pointer: UnsafeMutableRawPointer, byteCount: Int) throws(Failure) -> Memory

  /// Refuses what this backend cannot do, before the op is encoded.
  func check(_ op: Op) throws(Failure)

  /// Runs the submission after those before it, without blocking the caller.
  func submit(_ submission: any Submission)

  /// Compiles what these ops need and calls `done` once, from any thread. Nothing of them runs, and their memory is not
  /// touched. Does not block the caller.
  func prepare(_ ops: [EncodedOp], _ done: @escaping @Sendable (Failure?) -> Void)

  /// Called by a thread that is about to block until `submission` has finished: a chance to do the work on it.
  func assist(_ submission: any Submission)

  /// Ends the submissions from `ticket` on as soon as it can, without blocking: those that have not begun never do, and
  /// of those that run whatever can be left out is. Each is finished, and as ever touches no memory after that. Nothing
  /// is submitted any more.
  func stop(from ticket: UInt64)

  /// What a GPU has spent on what has finished since the device was opened.
  var gpuNanoseconds: UInt64 { get }

  /// Called once, and last. What is pending still runs, and the backend ends after it.
  func close()
}

extension Backend {
  /// For backends without a GPU.
  public var gpuNanoseconds: UInt64 { 0 }

  /// For backends whose kernels are compiled already.
  public func prepare(_ ops: [EncodedOp], _ done: @escaping @Sendable (Failure?) -> Void) { done(nil) }
}
