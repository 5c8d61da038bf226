import GatedDeltaTypes
import ShaderParams

/// The slots of one op as its kernels take them.
struct SlotTable {
  var starts: Region
  var readSlots: Region
  var writeSlots: Region
}

/// States that an op reads from elsewhere than its pool, and those that it stores beside the final ones: arguments.
struct StateArguments {
  var staged: Argument
  var storeOffsets: Argument
  var stores: Argument
  var snapshots: Argument
}

extension Pass {
  /// Index data of a ragged batch. Reads that do not go to the pool are -2 - i: of slots that other sequences write, i is
  /// the copy; where the op has a source, it is the source's slot.
  mutating func slots(_ sequences: Sequences, fromSource: Bool = false) throws(Failure) -> SlotTable {
    var reads = sequences.readSlots
    if fromSource {
      reads = reads.map { $0 < 0 ? $0 : Int32(GDM_SLOT_STAGED) - $0 }
    } else {
      for (copy, sequence) in sequences.stagedReads.enumerated() where reads.indices.contains(Int(sequence)) {
        reads[Int(sequence)] = Int32(GDM_SLOT_STAGED - copy)
      }
    }
    return SlotTable(
      starts: try arena.region(copying: sequences.starts), readSlots: try arena.region(copying: reads),
      writeSlots: try arena.region(copying: sequences.writeSlots))
  }

  mutating func states(
    _ states: StateTensors, pool: TensorView?, slotElements: Int, slots: Int, _ sequences: Sequences
  ) throws(Failure) -> StateArguments {
    var arguments = StateArguments(staged: .absent, storeOffsets: .absent, stores: .absent, snapshots: .absent)
    arguments.staged =
      states.source == nil
      ? try stage(pool, slotElements: slotElements, slots: slots, sequences)
      : try .reads(states.source, elements: states.sourceSlots * slotElements)
    guard let stores = sequences.stores else { return arguments }
    // Pairs of GDMStore: tokens, slot.
    var pairs: [Int32] = []
    pairs.reserveCapacity(2 * stores.stores.count)
    for store in stores.stores {
      switch store.target {
      case .slot(let slot): pairs += [store.tokens, slot]
      case .snapshot(let entry): pairs += [store.tokens, -1 - entry]
      }
    }
    arguments.storeOffsets = .reads(try arena.region(copying: stores.offsets))
    arguments.stores = .reads(try arena.region(copying: pairs))
    arguments.snapshots = try .writes(states.snapshots, elements: states.snapshotEntries * slotElements)
    return arguments
  }

  /// Copies aside the slots of `pool` that one sequence reads and another writes; absent where there are none.
  mutating func stage(_ pool: TensorView?, slotElements: Int, slots: Int, _ sequences: Sequences) throws(Failure)
    -> Argument
  {
    guard let pool, !sequences.stagedReads.isEmpty else { return .absent }
    let sources = sequences.stagedReads.map { sequences.readSlots[Int($0)] }
    let unit = Kernel.Unit(slotBytes: slotElements * pool.dtype.size, offset: pool.offset)
    let units = slotElements * pool.dtype.size / unit.rawValue
    let staged = try arena.region(byteCount: max(sources.count * slotElements * pool.dtype.size, 4))
    try dispatch(
      Kernel(family: .gather, unit: unit),
      [
        .reads(pool, elements: slots * slotElements), .writes(staged), .reads(arena.region(copying: sources)),
      ],
      GDMSlots(slotUnits: UInt32(element: units)),
      groups: (ceilDiv(units, GDM_COPY_THREADS), sources.count, 1), threads: .exactly(GDM_COPY_THREADS))
    return .reads(staged)
  }

  mutating func encode(_ op: CopySlots, _ sequences: Sequences) throws(Failure) {
    // Without slots nothing can be written, and the size of one is anything.
    guard op.slotElements > 0, op.slots > 0, sequences.count > 0 else { return }
    let staged = try stage(op.pool, slotElements: op.slotElements, slots: op.slots, sequences)
    let table = try slots(sequences)
    let bytes = op.slotElements * op.pool.dtype.size
    let unit = Kernel.Unit(slotBytes: bytes, offset: op.pool.offset)
    let units = bytes / unit.rawValue
    try dispatch(
      Kernel(family: .copy, unit: unit),
      [
        .writes(op.pool, elements: op.slots * op.slotElements), staged, .reads(table.readSlots),
        .reads(table.writeSlots),
      ],
      GDMSlots(slotUnits: UInt32(element: units)),
      groups: (ceilDiv(units, GDM_COPY_THREADS), sequences.count, 1), threads: .exactly(GDM_COPY_THREADS))
  }
}

extension Kernel.Unit {
  init(slotBytes: Int, offset: Int) {
    self = (slotBytes | offset) % 16 == 0 ? .u128 : (slotBytes | offset) % 4 == 0 ? .u32 : .u16
  }
}
