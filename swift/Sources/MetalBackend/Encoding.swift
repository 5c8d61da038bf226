import GatedDeltaTypes
import Metal
import Synchronization

/// A submission as command buffers. Normally none is committed before all are encoded: if one op cannot be encoded,
/// none of the submission's ops runs. A submission of very many command buffers is rehearsed first, and then committed
/// as they fill, since a queue has a limited number of them.
///
/// There can be several because the system ends command buffers that occupy a GPU for long. Products, recurrences and
/// attention of many rows are several dispatches, each in its own command buffer.
struct Encoding {
  /// A command buffer and its multiply-adds.
  struct Filled {
    let commandBuffer: any MTLCommandBuffer
    var work = 0
  }

  private let device: MetalBackend
  /// The most multiply-adds of a command buffer.
  private let workLimit: Int
  /// Not committed yet; the last one is being filled.
  private(set) var filled: [Filled]
  private var pass: Pass
  /// Commits a full command buffer; nil if all are committed at the end.
  private let commit: ((any MTLCommandBuffer, Int) -> Void)?

  init(
    device: MetalBackend, workLimit: Int? = nil, commit: ((any MTLCommandBuffer, Int) -> Void)? = nil
  ) throws(Failure) {
    self.device = device
    self.workLimit = workLimit ?? device.workLimit.value
    self.commit = commit
    let first = try Self.begin(device, waits: device.hasCommitted)
    filled = [Filled(commandBuffer: first.commandBuffer)]
    pass = Pass(
      device: device, encoder: first.encoder, arena: Arena(pool: device.arenas), lists: device.takeLists())
  }

  var commandBuffers: [any MTLCommandBuffer] { filled.map(\.commandBuffer) }
  /// Scratch memory of all command buffers.
  var chunks: [MetalMemory] { pass.arena.chunks }
  /// Ids to be checked when the last of them has completed.
  var checks: [IndexCheck] { pass.checks }
  /// Lists for the next pass.
  var lists: PassLists { pass.lists }

  /// - Throws: the failure of an op, with the op's name.
  mutating func add(_ op: EncodedOp) throws(Failure) {
    do throws(Failure) {
      try add(op.op)
      pass.nameChecks(op.name)
    } catch {
      var failure = error
      failure.op = "\(op.name)"
      throw failure
    }
  }

  /// The most command buffers that these ops can take: an op below the limit begins one; of an op cut into parts of
  /// more than half of the limit, each part begins one.
  static func commandBuffers(of ops: [EncodedOp], workLimit: Int) -> Int {
    ops.reduce(1) { $0 + 2 * ($1.op.work / max(workLimit, 1)) + 2 }
  }

  private mutating func add(_ op: Op) throws(Failure) {
    let work = op.work
    guard work > workLimit else {
      try roll(work)
      return try pass.encode(op)
    }
    switch op {
    case .gatedDelta(let op, let sequences): try add(op, sequences, work: work)
    case .attention(let op, let sequences): try add(op, sequences, work: work)
    case .linear(let op):
      for part in op.parts(workLimit: workLimit) {
        try roll(part.work)
        try pass.encode(part)
      }
    case .expertLinear(let op):
      for part in op.parts(workLimit: workLimit) {
        try roll(part.op.work)
        try pass.encode(part.op, firstToken: part.first)
      }
    default:
      try roll(work)
      try pass.encode(op)
    }
  }

  private mutating func add(_ op: Attention, _ sequences: Sequences, work: Int) throws(Failure) {
    try roll(0)
    guard let attention = try pass.begin(op, sequences, workLimit: workLimit) else { return }
    for part in 0..<attention.parts {
      try roll(work / attention.parts)
      try pass.encode(attention, part: part)
    }
  }

  private mutating func add(_ gatedDelta: GatedDelta, _ sequences: Sequences, work: Int) throws(Failure) {
    try roll(0)
    var recurrence = try pass.begin(gatedDelta, sequences, workLimit: workLimit)
    for part in 0..<recurrence.parts {
      try roll(work / recurrence.parts)
      try pass.encode(&recurrence, part: part)
    }
  }

  /// Begins a new command buffer if this much additional work would be too much for the current one.
  private mutating func roll(_ more: Int) throws(Failure) {
    if let last = filled.last, last.work > 0, last.work + more > workLimit {
      end()
      if let commit {
        for one in filled { commit(one.commandBuffer, one.work) }
        filled = []
      }
      let next = try Self.begin(device, waits: true)
      filled.append(Filled(commandBuffer: next.commandBuffer))
      pass.begin(next.encoder)
    }
    filled[filled.count - 1].work += more
  }

  /// Ends the current command buffer. An encoder must be ended even if its command buffer is not committed.
  func end() {
    pass.encoder?.updateFence(device.fence)
    pass.encoder?.endEncoding()
  }

  /// Every pass waits for the one before it: Metal tracks none of the buffers, and two of them may share memory. Metal
  /// does not retain them either: submissions hold their memory, and `Scratch` the arena's, until they have completed.
  private static func begin(_ device: MetalBackend, waits: Bool) throws(Failure) -> (
    commandBuffer: any MTLCommandBuffer, encoder: any MTLComputeCommandEncoder
  ) {
    guard let commandBuffer = device.queue.makeCommandBufferWithUnretainedReferences(),
      let encoder = commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent)
    else {
      throw Failure(.device, expected: "a command buffer", received: "none")
    }
    if waits { encoder.waitForFence(device.fence) }
    return (commandBuffer, encoder)
  }
}

/// Finishes a submission when the last of its command buffers has completed and no more will come, with the first
/// failure among them.
final class Completion: Sendable {
  private struct State {
    /// Command buffers in flight, plus one while more may come.
    var remaining = 1
    var failure: Failure?
    var checks: [IndexCheck] = []
  }
  private let submission: any Submission
  private let state = Mutex(State())

  init(_ submission: any Submission) { self.submission = submission }

  func add() { state.withLock { $0.remaining += 1 } }

  /// Checks for `complete`, in order. Called while more command buffers may come.
  func take(_ checks: [IndexCheck]) { state.withLock { $0.checks = checks } }

  /// True for the last part.
  func complete(_ failure: Failure?) -> Bool {
    state.withLock { state in
      state.remaining -= 1
      state.failure = state.failure ?? failure
      guard state.remaining == 0 else { return false }
      // While the scratch memory is still the submission's.
      if state.failure == nil { state.failure = state.checks.lazy.compactMap(\.found).first }
      return true
    }
  }

  func finish() { submission.finish(state.withLock { $0.failure }) }
}

// Approximate multiply-adds of the ops.

extension GatedDelta {
  func work(_ sequences: Sequences) -> Int { 2 * tokens * valueHeads * valueDim * keyDim }
}

extension CausalConv1d {
  func work(_ sequences: Sequences) -> Int { tokens * channels * width }
}

extension GatedRMSNorm {
  var work: Int { tokens * heads * dim }
}

extension GatedDeltaStep {
  func work(_ sequences: Sequences) -> Int { 2 * self.sequences * valueHeads * valueDim * keyDim }
}

extension CopySlots {
  func work(_ sequences: Sequences) -> Int { slots > 0 ? sequences.count * slotElements : 0 }
}

extension CommitGatedDelta {
  func work(_ sequences: Sequences) -> Int { tokens * valueHeads * valueDim * keyDim }
}

extension CommitCausalConv1d {
  func work(_ sequences: Sequences) -> Int { sequences.count * channels * width }
}
