import GatedDeltaTypes

/// Ops validated once and replayed. What a replay has to look at is kept apart from the ops: the buffers, whose handles
/// must still be good, and the index data that lies in buffers and may have changed. Where it has not, a replay hands
/// over the very ops of the last one and allocates nothing but the submission.
final class Plan: @unchecked Sendable {
  /// A buffer and where it was first used, for the message.
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
  private var ragged: [Ragged] = []

  init(device: Device) {
    self.device = device
  }

  /// Buffers that a replay needs, those of ops that turned out to be empty included.
  func remember(_ newUses: [Use]) {
    for use in newUses where known.insert(ObjectIdentifier(use.buffer)).inserted { uses.append(use) }
  }

  func record(_ op: consuming EncodedOp, _ recipe: SequenceRecipe?, _ batch: Batch?) {
    if let recipe, recipe.isVariable, let batch {
      ragged.append(Ragged(position: ops.count, recipe: recipe, batch: batch))
    }
    ops.append(op)
  }

  /// Submits the ops with the index data of this moment and returns the ticket. Nothing has happened where it throws.
  func run() throws(Failure) -> UInt64 {
    for use in uses where use.buffer.isReleased {
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
    return try device.commit(following: ops)
  }
}
