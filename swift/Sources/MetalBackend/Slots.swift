import GatedDeltaTypes
import ShaderParams

/// The slots of one op in the form that its kernels take: tables in memory or, for a small batch, a constant of the
/// dispatch.
struct SlotTable {
  var starts = Argument.absent
  var readSlots = Argument.absent
  var writeSlots = Argument.absent
  var batch = MoreConstants.absent

  var isSmall: Bool { if case .batch = batch { true } else { false } }
}

/// The last table written to a submission's memory. Nothing writes there again, so a later op may read it too.
struct LastTable {
  private var last: (sequences: Sequences, fromSource: Bool, table: SlotTable)?

  mutating func keep(_ table: SlotTable, of sequences: Sequences, fromSource: Bool) {
    last = (sequences, fromSource, table)
  }

  /// True if these would give the same numbers.
  func find(_ sequences: Sequences, fromSource: Bool) -> SlotTable? {
    guard let last, last.fromSource == fromSource, last.sequences.count == sequences.count,
      last.sequences.readSlots == sequences.readSlots, last.sequences.writeSlots == sequences.writeSlots,
      last.sequences.starts == sequences.starts, last.sequences.stagedReads == sequences.stagedReads
    else { return nil }
    return last.table
  }
}

/// The arguments for states that an op reads from a source other than its pool, and for those that it stores in
/// addition to the final ones.
struct StateArguments {
  var staged: Argument
  var storeOffsets: Argument
  var stores: Argument
  var snapshots: Argument
}

extension Pass {
  /// Index data of a ragged batch. Reads that do not go to the pool are -2 - i: for slots that other sequences write, i
  /// is the copy; if the op has a source, it is the source's slot.
  ///
  /// `small` says that the kernel can take a small batch as a constant.
  mutating func slots(_ sequences: Sequences, fromSource: Bool = false, small: Bool = false) throws(Failure)
    -> SlotTable
  {
    if small, sequences.count <= GDM_SMALL_BATCH {
      return SlotTable(batch: .batch(GDMBatch(sequences, fromSource: fromSource)))
    }
    // The layers of a model share theirs: one copy in memory serves them all, and stays bound.
    if let table = tables.find(sequences, fromSource: fromSource) { return table }
    let readSlots = try arena.region(copying: sequences.readSlots)
    sequences.eachTranslatedRead(fromSource: fromSource) { sequence, slot in
      (readSlots.contents + 4 * sequence).storeBytes(of: slot, as: Int32.self)
    }
    let table = SlotTable(
      starts: .reads(try arena.region(copying: sequences.starts)), readSlots: .reads(readSlots),
      writeSlots: .reads(try arena.region(copying: sequences.writeSlots)))
    tables.keep(table, of: sequences, fromSource: fromSource)
    return table
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

  /// Copies the slots of `pool` that one sequence reads and another writes; absent if there are none.
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
    // Without slots nothing can be written, and the size of a slot is arbitrary.
    guard op.slotElements > 0, op.slots > 0, sequences.count > 0 else { return }
    let staged = try stage(op.pool, slotElements: op.slotElements, slots: op.slots, sequences)
    let table = try slots(sequences)
    let bytes = op.slotElements * op.pool.dtype.size
    let unit = Kernel.Unit(slotBytes: bytes, offset: op.pool.offset)
    let units = bytes / unit.rawValue
    try dispatch(
      Kernel(family: .copy, unit: unit),
      [
        .writes(op.pool, elements: op.slots * op.slotElements), staged, table.readSlots, table.writeSlots,
      ],
      GDMSlots(slotUnits: UInt32(element: units)),
      groups: (ceilDiv(units, GDM_COPY_THREADS), sequences.count, 1), threads: .exactly(GDM_COPY_THREADS))
  }
}

extension Sequences {
  /// The read slots that are not in the pool.
  fileprivate func eachTranslatedRead(fromSource: Bool, _ store: (Int, Int32) -> Void) {
    if fromSource {
      for sequence in 0..<count where readSlots[sequence] >= 0 {
        store(sequence, Int32(GDM_SLOT_STAGED) - readSlots[sequence])
      }
    } else {
      for copy in stagedReads.indices where readSlots.indices.contains(Int(stagedReads[copy])) {
        store(Int(stagedReads[copy]), Int32(GDM_SLOT_STAGED - copy))
      }
    }
  }
}

extension GDMBatch {
  /// At most GDM_SMALL_BATCH sequences.
  fileprivate init(_ sequences: Sequences, fromSource: Bool) {
    self.init()
    let count = min(sequences.count, Int(GDM_SMALL_BATCH))
    withUnsafeMutableBytes(of: &starts) { starts in
      for i in 0...count { starts.storeBytes(of: sequences.starts[i], toByteOffset: 4 * i, as: Int32.self) }
    }
    withUnsafeMutableBytes(of: &writeSlots) { slots in
      for i in 0..<count { slots.storeBytes(of: sequences.writeSlots[i], toByteOffset: 4 * i, as: Int32.self) }
    }
    withUnsafeMutableBytes(of: &readSlots) { slots in
      for i in 0..<count { slots.storeBytes(of: sequences.readSlots[i], toByteOffset: 4 * i, as: Int32.self) }
      sequences.eachTranslatedRead(fromSource: fromSource) { sequence, slot in
        slots.storeBytes(of: slot, toByteOffset: 4 * sequence, as: Int32.self)
      }
    }
  }
}

extension Kernel.Unit {
  init(slotBytes: Int, offset: Int) {
    self = (slotBytes | offset) % 16 == 0 ? .u128 : (slotBytes | offset) % 4 == 0 ? .u32 : .u16
  }
}
