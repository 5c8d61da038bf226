import GatedDeltaTypes
import Metal
import Synchronization

/// A submission as command buffers, of which none is committed before all are encoded: where one op cannot be encoded,
/// none of the submission's ops runs.
///
/// More than one, because the system ends command buffers that keep a GPU to themselves for seconds. A single op is
/// never split, so a very long sequence can still take too long.
struct Encoding {
  /// Multiply-adds of a command buffer, unless a test sets fewer: some tenths of a second on the slowest GPU.
  static let workLimit = 1 << 35

  private let device: MetalBackend
  private(set) var commandBuffers: [any MTLCommandBuffer] = []
  private var pass: Pass
  private var work = 0

  init(device: MetalBackend) throws(Failure) {
    self.device = device
    let first = try Self.begin(device, waits: device.hasCommitted)
    commandBuffers = [first.commandBuffer]
    pass = Pass(device: device, encoder: first.encoder, arena: Arena(pool: device.arenas))
  }

  /// Scratch memory of all command buffers.
  var chunks: [Chunk] { pass.arena.chunks }

  /// - Throws: what is wrong, with the op's name.
  mutating func add(_ op: EncodedOp) throws(Failure) {
    do throws(Failure) {
      try add(op.op)
    } catch {
      var failure = error
      failure.op = "\(op.name)"
      throw failure
    }
  }

  private mutating func add(_ op: Op) throws(Failure) {
    if work > 0, work + op.work > device.workLimit {
      end()
      let next = try Self.begin(device, waits: true)
      commandBuffers.append(next.commandBuffer)
      pass = Pass(device: device, encoder: next.encoder, arena: pass.arena)
      work = 0
    }
    work += op.work
    try pass.encode(op)
  }

  /// Ends the current command buffer. An encoder must be ended also where its command buffer is not committed.
  func end() {
    pass.encoder.updateFence(device.fence)
    pass.encoder.endEncoding()
  }

  /// Every pass waits for the one before it. Metal tracks what passes share by buffer, and two buffers may lie over the
  /// same memory.
  private static func begin(_ device: MetalBackend, waits: Bool) throws(Failure) -> (
    commandBuffer: any MTLCommandBuffer, encoder: any MTLComputeCommandEncoder
  ) {
    guard let commandBuffer = device.queue.makeCommandBuffer(),
      let encoder = commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent)
    else {
      throw Failure(.device, expected: "a command buffer", received: "none")
    }
    if waits { encoder.waitForFence(device.fence) }
    return (commandBuffer, encoder)
  }
}

/// Finishes a submission when the last of its command buffers has completed, with the first failure of any.
final class Completion: Sendable {
  private struct State {
    var remaining: Int
    var failure: Failure?
  }
  private let submission: any Submission
  private let state: Mutex<State>

  init(_ submission: any Submission, parts: Int) {
    self.submission = submission
    state = Mutex(State(remaining: parts))
  }

  /// True for the last part.
  func complete(_ failure: Failure?) -> Bool {
    state.withLock { state in
      state.remaining -= 1
      state.failure = state.failure ?? failure
      return state.remaining == 0
    }
  }

  func finish() { submission.finish(state.withLock { $0.failure }) }
}

extension Op {
  /// Multiply-adds, roughly.
  var work: Int {
    switch self {
    case .gatedDelta(let op, _): 2 * op.tokens * op.valueHeads * op.valueDim * op.keyDim
    case .causalConv1d(let op, _): op.tokens * op.channels * op.width
    case .gatedRMSNorm(let op): op.tokens * op.heads * op.dim
    case .gatedDeltaStep(let op, _): 2 * op.sequences * op.valueHeads * op.valueDim * op.keyDim
    case .linear(let op): op.rows * op.inFeatures * op.outFeatures
    case .commitGatedDelta(let op, _): op.tokens * op.valueHeads * op.valueDim * op.keyDim
    case .commitCausalConv1d(let op, let sequences): sequences.count * op.channels * op.width
    case .copySlots(let op, let sequences): op.slots > 0 ? sequences.count * op.slotElements : 0
    }
  }
}
