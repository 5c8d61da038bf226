import GatedDeltaTypes
import Synchronization

/// Ops validated once and replayed. A replay checks only the parts outside of the ops: buffers, whose handles must
/// still be valid, and index data in buffers, which may have changed. If the data has not changed, a replay hands over the
/// ops of the last one and allocates only the submission.
final class Plan: @unchecked Sendable {
  /// A buffer and the argument where it was first used, for the message.
  struct Use: Sendable {
    let buffer: Buffer
    let op: String
    let argument: String
  }

  private struct Ragged {
    let position: Int
    let recipe: SequenceRecipe
    var batch: Batch
  }

  let device: Device
  private var ops: [EncodedOp] = []
  private var uses: [Use] = []
  private var known: Set<ObjectIdentifier> = []
  /// The mapped files that the ops read.
  private var files: [MappedFile] = []
  private var ragged: [Ragged] = []
  private var preparation: Preparation?

  init(device: Device) {
    self.device = device
  }

  /// Buffers that a replay needs, including those of ops that turned out to be empty.
  func remember(_ newUses: [Use]) {
    for use in newUses where known.insert(ObjectIdentifier(use.buffer)).inserted { uses.append(use) }
  }

  func record(_ op: consuming EncodedOp, _ recipe: SequenceRecipe?, _ batch: Batch?, reading newFiles: [MappedFile]) {
    files.unite(newFiles)
    if let recipe, recipe.isVariable, let batch {
      ragged.append(Ragged(position: ops.count, recipe: recipe, batch: batch))
    }
    ops.append(op)
  }

  /// Submits the ops with the current index data and returns the ticket. If it throws, nothing has happened.
  func run() throws(Failure) -> UInt64 {
    // By index: a copy of a use would retain its words too.
    for index in uses.indices where uses[index].buffer.isReleased {
      let use = uses[index]
      throw Failure(
        .handle, op: use.op, argument: use.argument, expected: "a buffer", received: "one that was released")
    }
    // All of the new index data is checked before any of it takes effect.
    var changes: [(index: Int, batch: Batch)] = []
    for index in ragged.indices where !ragged[index].recipe.isCurrent(ragged[index].batch) {
      let entry = ragged[index]
      do throws(Failure) {
        changes.append((index, try entry.recipe.resolve(device.slotChecker)))
      } catch {
        var failure = error
        failure.op = "\(ops[entry.position].name)"
        throw failure
      }
    }
    for change in changes {
      ragged[change.index].batch = change.batch
      ops[ragged[change.index].position].op.sequences = change.batch.sequences
    }
    return try device.commit(following: ops, reading: files)
  }

  /// Has the backend compile the kernels of the ops.
  func prepare() {
    let preparation = Preparation()
    self.preparation = preparation
    device.backend.prepare(ops) { preparation.finish($0) }
  }

  /// True once the last preparation is over.
  func isPrepared() throws(Failure) -> Bool {
    guard let preparation else {
      throw Failure(.state, argument: "plan", expected: "one that is being prepared", received: "one that is not")
    }
    return try preparation.outcome()
  }
}

/// The preparation of a plan's ops: the backend's thread finishes it, possibly after the plan is gone.
private final class Preparation: Sendable {
  private let state = Mutex<Result<Bool, Failure>>(.success(false))

  func finish(_ failure: Failure?) { state.withLock { $0 = failure.map { .failure($0) } ?? .success(true) } }

  /// False while it is running.
  func outcome() throws(Failure) -> Bool { try state.withLock { $0 }.get() }
}
