import CPUKernels
import GatedDeltaTypes
import Synchronization

/// Runs ops one after the other for a device. Used by one thread at a time, except for `stop`.
final class Executor {
  let kernels: gd_cpu_kernels
  let threads: Int
  private let scratch: PageRange
  var bounds: GrowingBuffer<Int64>
  /// Per-sequence parameters of the current op; the second array is for the op with two pools.
  private var sequences = GrowingBuffer<gd_cpu_sequence>()
  private var otherSequences = GrowingBuffer<gd_cpu_sequence>()
  private var stores = GrowingBuffer<gd_cpu_state_store>()
  private var copies = GrowingBuffer<gd_cpu_slot_copy>()
  /// Ids of a tensor, each read once, since the caller may write there; -1 for wrong ones.
  var checkedIds = GrowingBuffer<Int32>()
  private let staging = Staging()
  private let otherStaging = Staging()
  let attentionPlan = AttentionPlan()
  let expertPlan = ExpertPlan()
  let roundedRows = RoundedRows()
  var arrangedRows = HeldRows()
  /// The current op, if it is a linear, and those that run with it.
  var linears = LinearGroup()
  /// The first failure of the current submission that does not keep its other ops from running.
  private var failure: Failure?
  /// This device's place among those that the pool's threads help; nil if there is none left.
  private let crew: Crew?
  /// The estimated time of the current op on one thread.
  var estimate = 0.0

  /// Set by `stop`, read by the kernels.
  private let stopWord: UnsafeMutablePointer<Atomic<UInt32>>

  /// Estimated work below which another thread is not worth notifying.
  static let worthAThread = 4000.0
  /// Estimated work of a part that is long to wait for.
  static let longPart = 50_000.0
  let leastNanoseconds: Double

  init(threads: Int, kernels: UnsafePointer<gd_cpu_kernels>, leastNanoseconds: Double) throws(Failure) {
    self.threads = threads
    self.leastNanoseconds = leastNanoseconds
    self.kernels = kernels.pointee
    scratch = try PageRange(byteCount: gd_cpu_scratch_bytes(), alignment: 4096)
    _ = kernels.pointee.choose_block?(scratch.start, 0)
    _ = kernels.pointee.choose_widening?(scratch.start, 0)
    _ = kernels.pointee.choose_turning?(scratch.start, 0)
    bounds = GrowingBuffer()
    bounds.reserve(ThreadPool.mostParts &+ 1)
    crew = ThreadPool.shared.join(threads: threads)
    stopWord = .allocate(capacity: 1)
    stopWord.initialize(to: Atomic(0))
  }

  deinit {
    if let crew { ThreadPool.shared.leave(crew) }
    stopWord.deallocate()
  }

  /// Ends the current run after its current work item, and every later run at once, with a failure. From any thread.
  func stop() { stopWord.pointee.store(1, ordering: .relaxed) }

  private var isStopped: Bool { stopWord.pointee.load(ordering: .relaxed) != 0 }

  /// - Throws: the failure of an op, with the op's name; later ops have not run, unless the op reported it with
  ///   `fail`. Also after `stop`.
  func run(_ ops: [EncodedOp]) throws(Failure) {
    if let crew { ThreadPool.shared.begin(crew) }
    defer { if let crew { ThreadPool.shared.end(crew) } }
    // By index: a copy of an op would retain and release each of its buffers.
    failure = nil
    forgetRows()
    defer { linears.clear() }
    var next = 0
    while next < ops.count {
      let index = next
      linears.take(ops, from: index)
      if linears.count == 0 { forgetRows() }
      next &+= max(1, linears.count)
      do throws(Failure) {
        try run(ops, index)
      } catch {
        var failure = error
        failure.op = "\(ops[index].name)"
        throw failure
      }
      if failure?.op.isEmpty == true { failure?.op = "\(ops[index].name)" }
      if isStopped { throw Executor.stopped }
    }
    if let failure { throw failure }
  }

  private func forgetRows() {
    arrangedRows.forget()
    roundedRows.held.forget()
  }

  /// The submission fails once all of its ops have run; of several such failures the first counts.
  func fail(_ failure: Failure) { self.failure = self.failure ?? failure }

  /// The failure of work whose device has lost its owner.
  static let stopped = Failure(.state, argument: "device", expected: "an open device", received: "one that has ended")

  // MARK: The ops

  func run(_ op: GatedDelta, _ sequences: Sequences) throws(Failure) {
    let elements = op.valueHeads &* op.valueDim &* op.keyDim
    let pool = Pool(op.state, slotElements: elements)
    try stage(sequences, of: pool, in: staging)
    fill(&self.sequences, sequences, pool, staging, from: Pool(op.states.source, slotElements: elements))
    addStores(sequences, pool, snapshots: Pool(op.states.snapshots, slotElements: elements), op.stateDType)
    let tokens = sequences.rowCount
    let parts = self.parts(nanoseconds: Double(elements) * 0.08 * Double(tokens &+ sequences.count))
    var params = gd_cpu_gated_delta(
      heads: gd_cpu_heads(op), gates: gd_cpu_gates(op), query: gd_cpu_tensor(op.query), key: gd_cpu_tensor(op.key),
      value: gd_cpu_tensor(op.value), out: gd_cpu_tensor(op.out), records: gd_cpu_records(op.records),
      state_dtype: op.stateDType.rawValue,
      rows_per_item: Int64(rowsPerItem(op.valueDim, heads: sequences.count &* op.valueHeads, parts: parts)),
      sequences: self.sequences.start, sequence_count: Int64(sequences.count))
    let items = gd_cpu_gated_delta_items(&params)
    let kernel = op.options.algorithm == .chunked ? kernels.gated_delta_chunked : kernels.gated_delta
    launch(kernel, &params, cut(sequences, itemsEach: items, base: 1, parts: parts))
  }

  func run(_ op: CausalConv1d, _ sequences: Sequences) throws(Failure) {
    let elements = op.channels &* (op.width &- 1)
    let pool = Pool(op.state, slotElements: elements)
    try stage(sequences, of: pool, in: staging)
    fill(&self.sequences, sequences, pool, staging, from: Pool(op.states.source, slotElements: elements))
    addStores(sequences, pool, snapshots: Pool(op.states.snapshots, slotElements: elements), op.stateDType)
    let tokens = sequences.rowCount
    let parts = self.parts(nanoseconds: Double(op.channels) * 0.4 * Double(tokens &+ 2 &* sequences.count))
    var params = gd_cpu_causal_conv1d(
      channels: Int64(op.channels), width: Int64(op.width), activation: op.options.activation.rawValue,
      x: gd_cpu_tensor(op.x), weight: gd_cpu_tensor(op.weight), bias: gd_cpu_tensor(op.bias),
      out: gd_cpu_tensor(op.out), state_dtype: op.stateDType.rawValue,
      channels_per_item: channelsPerItem(op.channels, sequences.count, parts: parts), sequences: self.sequences.start,
      sequence_count: Int64(sequences.count))
    let items = gd_cpu_causal_conv1d_items(&params)
    launch(kernels.causal_conv1d, &params, cut(sequences, itemsEach: items, base: 3, parts: parts))
  }

  func run(_ op: CommitGatedDelta, _ sequences: Sequences) throws(Failure) {
    let elements = op.valueHeads &* op.valueDim &* op.keyDim
    let pool = Pool(op.state, slotElements: elements)
    try stage(sequences, of: pool, in: staging)
    fill(&self.sequences, sequences, pool, staging)
    let parts = self.parts(nanoseconds: Double(elements) * 0.05 * Double(sequences.rowCount &+ sequences.count))
    var params = gd_cpu_commit_gated_delta(
      heads: gd_cpu_heads(op), gate_dims: op.gateDims.rawValue, state_dtype: pool.dtype,
      records: gd_cpu_records(op.records),
      rows_per_item: Int64(rowsPerItem(op.valueDim, heads: sequences.count &* op.valueHeads, parts: parts)),
      sequences: self.sequences.start, sequence_count: Int64(sequences.count))
    let items = gd_cpu_commit_gated_delta_items(&params)
    launch(kernels.commit_gated_delta, &params, cut(sequences, itemsEach: items, base: 1, parts: parts))
  }

  func run(_ op: CommitCausalConv1d, _ sequences: Sequences) throws(Failure) {
    let pool = Pool(op.state, slotElements: op.channels &* (op.width &- 1))
    try stage(sequences, of: pool, in: staging)
    fill(&self.sequences, sequences, pool, staging)
    let parts = self.parts(nanoseconds: Double(op.channels) * 2 * Double(sequences.count))
    var params = gd_cpu_commit_causal_conv1d(
      channels: Int64(op.channels), width: Int64(op.width), x: gd_cpu_tensor(op.x), state_dtype: pool.dtype,
      channels_per_item: channelsPerItem(op.channels, sequences.count, parts: parts),
      sequences: self.sequences.start, sequence_count: Int64(sequences.count))
    let items = gd_cpu_commit_causal_conv1d_items(&params) &* Int64(sequences.count)
    launch(kernels.commit_causal_conv1d, &params, cut(items, parts: parts))
  }

  func run(_ op: GatedRMSNorm) throws(Failure) {
    let elements = Double(op.tokens) * Double(op.heads) * Double(op.dim)
    var params = gd_cpu_gated_rms_norm(
      tokens: Int64(op.tokens), heads: Int64(op.heads), dim: Int64(op.dim), activation: op.options.activation.rawValue,
      order: op.options.order.rawValue, eps: op.options.eps, x: gd_cpu_tensor(op.x), z: gd_cpu_tensor(op.z),
      weight: gd_cpu_tensor(op.weight), out: gd_cpu_tensor(op.out))
    let items = gd_cpu_gated_rms_norm_items(&params)
    launch(kernels.gated_rms_norm, &params, cut(items, parts: parts(nanoseconds: elements * 0.4)))
  }

  func run(_ op: GatedDeltaStep, _ sequences: Sequences) throws(Failure) {
    let elements = op.valueHeads &* op.valueDim &* op.keyDim
    let channels = 2 &* op.keyHeads &* op.keyDim &+ op.valueHeads &* op.valueDim
    let pool = Pool(op.state, slotElements: elements)
    let convPool = Pool(op.convState, slotElements: channels &* (op.width &- 1))
    try stage(sequences, of: pool, in: staging)
    try stage(sequences, of: convPool, in: otherStaging)
    fill(&self.sequences, sequences, pool, staging)
    fill(&otherSequences, sequences, convPool, otherStaging)
    let parts = self.parts(nanoseconds: Double(elements &+ 10 &* channels) * 0.1 * Double(sequences.count))
    var params = gd_cpu_gated_delta_step(
      heads: gd_cpu_heads(op), gates: gd_cpu_gates(op), width: Int64(op.width),
      conv_activation: op.options.convActivation.rawValue, norm_activation: op.options.normActivation.rawValue,
      norm_order: op.options.normOrder.rawValue, norm_eps: op.options.normEps, x: gd_cpu_tensor(op.x),
      conv_weight: gd_cpu_tensor(op.convWeight), conv_bias: gd_cpu_tensor(op.convBias), z: gd_cpu_tensor(op.z),
      norm_weight: gd_cpu_tensor(op.normWeight), out: gd_cpu_tensor(op.out), conv_state_dtype: convPool.dtype,
      state_dtype: pool.dtype, conv_sequences: otherSequences.start, sequences: self.sequences.start,
      sequence_count: Int64(sequences.count))
    let items = gd_cpu_gated_delta_step_items(&params) &* Int64(sequences.count)
    launch(kernels.gated_delta_step, &params, cut(items, parts: parts))
  }

  func run(_ op: CopySlots, _ sequences: Sequences) throws(Failure) {
    let pool = Pool(op.pool, slotElements: op.slotElements)
    try stage(sequences, of: pool, in: staging)
    copies.reserve(sequences.count)
    var count = 0
    for index in 0..<sequences.count {
      guard let write = pool.slot(sequences.writeSlots[index]) else { continue }
      let read = staging.copy(of: index) ?? pool.slot(sequences.readSlots[index])
      copies.start[count] = gd_cpu_slot_copy(read: read, write: write)
      count &+= 1
    }
    copy(count, slotBytes: pool.slotBytes)
  }

  private func copy(_ count: Int, slotBytes: Int) {
    var params = gd_cpu_copy_slots(slot_bytes: Int64(slotBytes), copies: copies.start, count: Int64(count))
    let items = gd_cpu_copy_slots_items(&params)
    launch(kernels.copy_slots, &params, cut(items, parts: parts(nanoseconds: Double(slotBytes) * Double(count) * 0.1)))
  }

  // MARK: Slots

  /// Copies the slots that the op reads and also writes for another sequence, before it writes anything.
  private func stage(_ sequences: Sequences, of pool: Pool, in staging: Staging) throws(Failure) {
    staging.clear()
    guard !sequences.stagedReads.isEmpty, pool.slotBytes > 0 else { return }
    try staging.plan(sequences, pool)
    copies.reserve(staging.copies.count)
    for (index, copy) in staging.copies.enumerated() { copies.start[index] = copy }
    copy(staging.copies.count, slotBytes: pool.slotBytes)
  }

  /// - Parameter source: the tensor that read slots index instead of the pool, if any.
  private func fill(
    _ buffer: inout GrowingBuffer<gd_cpu_sequence>, _ sequences: Sequences, _ pool: Pool, _ staging: Staging,
    from source: Pool = .none
  ) {
    let readPool = source.exists ? source : pool
    buffer.reserve(sequences.count)
    for index in 0..<sequences.count {
      buffer.start[index] = gd_cpu_sequence(
        first: Int64(sequences.starts[index]), count: sequences.rows(of: index),
        read: UnsafeRawPointer(staging.copy(of: index) ?? readPool.slot(sequences.readSlots[index])),
        write: pool.slot(sequences.writeSlots[index]), stores: nil, store_count: 0)
    }
  }

  private func addStores(_ sequences: Sequences, _ pool: Pool, snapshots: Pool, _ dtype: DType) {
    guard let stores = sequences.stores else { return }
    self.stores.reserve(stores.stores.count)
    for (index, store) in stores.stores.enumerated() {
      let target =
        switch store.target {
        case .slot(let slot): pool.slot(slot)
        case .snapshot(let entry): snapshots.slot(entry)
        }
      self.stores.start[index] = gd_cpu_state_store(after: Int64(store.tokens), state: target, dtype: dtype.rawValue)
    }
    for index in 0..<sequences.count {
      let first = Int(stores.offsets[index])
      self.sequences.start[index].stores = UnsafePointer(self.stores.start + first)
      self.sequences.start[index].store_count = Int64(stores.offsets[index &+ 1]) &- Int64(first)
    }
  }

  func launch<Params>(_ kernel: OpaqueRun?, _ params: inout Params, _ parts: Int) {
    guard let kernel, bounds.start[parts] > 0 else { return }
    // An atomic word has the layout of a plain one, and C reads it as such.
    let stop = UnsafePointer<UInt32>(OpaquePointer(stopWord))
    withUnsafePointer(to: &params) { params in
      let job = PoolJob(run: kernel, op: UnsafeRawPointer(params), bounds: UnsafePointer(bounds.start), parts: parts,
        stop: stop)
      if parts > 1, let crew, ThreadPool.shared.run(job, nanoseconds: estimate, in: crew, scratch: scratch.start) {
        return
      }
      kernel(job.op, 0, bounds.start[parts], scratch.start, stop)
    }
  }
}
