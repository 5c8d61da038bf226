import CPUKernels
import GatedDeltaTypes

/// One open device of the CPU backend.
final class CPUDevice: Backend, @unchecked Sendable {
  let description: DeviceDescription
  private let queue: DeviceQueue

  init(executor: Executor) {
    let isa = executor.kernels.name.map { String(cString: $0) } ?? ""
    description = DeviceDescription(
      backend: .cpu, name: Processor.name, isa: isa, threads: executor.threads, emulated: false)
    queue = DeviceQueue(executor: executor)
  }

  func allocate(byteCount: Int) throws(Failure) -> Memory { try CPUMemory(byteCount: byteCount) }

  func wrap(pointer: UnsafeMutableRawPointer, byteCount: Int) throws(Failure) -> Memory {
    try CPUMemory(wrapping: pointer, byteCount: byteCount)
  }

  func map(_ window: FileWindow) throws(Failure) -> Memory { CPUMemory(window) }
  func join(_ pieces: JoinedPieces) throws(Failure) -> Memory { try CPUMemory(pieces) }

  /// Every op and option has a kernel.
  func check(_ op: Op) throws(Failure) {
    if op.products == .matrix {
      throw Failure(.unsupported, argument: "products", expected: "rows: the CPU has no matrix units", received: "matrix")
    }
  }

  func submit(_ submission: any Submission) { queue.add(submission) }

  func assist(_ submission: any Submission) { queue.assist(submission) }

  func stop(from ticket: UInt64) { queue.stop(from: ticket) }

  func close() { queue.close() }
}
