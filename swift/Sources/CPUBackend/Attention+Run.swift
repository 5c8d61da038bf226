import CPUKernels
import GatedDeltaTypes

extension Executor {
  func run(_ op: Attention, _ sequences: Sequences) throws(Failure) {
    guard let pages = sequences.pages else { return }
    let rows = sequences.rowCount
    guard rows > 0 else { return }
    let plan = attentionPlan
    try plan.make(op, sequences, pages, threads: threads, parts: parts(nanoseconds:))
    pages.pageTable.withUnsafeBufferPointer { table in
      pages.rotation.withUnsafeBufferPointer { rotation in
        for sequence in 0..<sequences.count {
          // Pages of sequences without rows are not read.
          plan.sequences.start[sequence].pages = table.baseAddress.map { $0 + sequence &* pages.pagesPerSequence }
        }
        var params = gd_cpu_attention(
          heads: Int64(op.heads), key_heads: Int64(op.keyHeads), head_dim: Int64(op.headDim),
          rotary_dim: Int64(op.options.rotaryDim), weight_form: op.options.weightForm.rawValue,
          norm_eps: op.options.normEps, scale: op.options.scale, query: gd_cpu_tensor(op.query),
          key: gd_cpu_tensor(op.key), value: gd_cpu_tensor(op.value), gate: gd_cpu_tensor(op.gate),
          query_norm: gd_cpu_tensor(op.queryNorm), key_norm: gd_cpu_tensor(op.keyNorm), out: gd_cpu_tensor(op.out),
          page_dtype: op.keyPages.dtype.rawValue, page_tokens: Int64(op.pageTokens), key_pages: op.keyPages.pointer,
          value_pages: op.valuePages.pointer, places: UnsafePointer(plan.places.start), angles: rotation.baseAddress,
          sequences: UnsafePointer(plan.sequences.start), tasks: UnsafePointer(plan.tasks.start))
        let stored = rows &* op.keyHeads
        launch(
          kernels.attention_store, &params,
          cut(Int64(stored), parts: parts(nanoseconds: Double(stored) * Double(op.headDim) * 0.5)))
        launch(kernels.attention, &params, cut(plan.costs, itemsEach: op.keyHeads, parts: plan.parts))
        if plan.hasPartials {
          launch(
            kernels.attention_combine, &params,
            cut(Int64(sequences.count &* op.keyHeads), parts: plan.parts))
        }
      }
    }
  }
}

/// The cut of an attention's work: into blocks of query rows and, if those are too few, also into spans of keys. No bit
/// of the result depends on it.
final class AttentionPlan {
  fileprivate(set) var sequences = GrowingBuffer<gd_cpu_paged_sequence>()
  private(set) var tasks = GrowingBuffer<gd_cpu_attention_task>()
  private(set) var places = GrowingBuffer<Int64>()
  /// The cost of each task's items.
  private(set) var costs: [Double] = []
  private(set) var hasPartials = false
  private(set) var parts = 1
  private var partials: PageRange?
  private var partialBytes = 0

  private static let span = Int(GD_CPU_ATTENTION_SPAN)
  private static let mostRows = Int(GD_CPU_ATTENTION_ROWS)
  /// A task of fewer rows reads keys that many rows could share.
  private static let leastRows = 16
  /// The limit of the buffer for results of single spans; without one it would reach half a gigabyte.
  private static let mostPartialBytes = 1 << 26

  fileprivate func make(
    _ op: Attention, _ batch: Sequences, _ pages: PagedSequences, threads: Int, parts: (Double) -> Int
  ) throws(Failure) {
    let group = op.heads / op.keyHeads
    sequences.reserve(batch.count)
    places.reserve(batch.rowCount)
    var pairs = 0.0
    for index in 0..<batch.count {
      let first = Int(batch.starts[index])
      let count = Int(batch.starts[index &+ 1]) &- first
      let past = Int(pages.pastTokens[index])
      sequences.start[index] = gd_cpu_paged_sequence(
        first: Int64(first), count: Int64(count), past: Int64(past), pages: nil, partials: nil,
        spans: Int64((past &+ count &+ Self.span &- 1) / Self.span))
      pairs += Double(count) * (Double(past) + 0.5 * Double(count &+ 1))
      for row in 0..<count {
        let token = past &+ row
        let page = pages.pageTable[index &* pages.pagesPerSequence &+ token / op.pageTokens]
        places.start[first &+ row] = Int64(Int(page) &* op.keyHeads &* op.pageTokens &+ token % op.pageTokens)
      }
    }
    self.parts = parts(pairs * Double(op.heads) * Double(op.headDim) * 0.03)
    hasPartials = false
    var rows = Self.mostRows
    addTasks(batch.count, group: group, rows: rows)
    while self.parts > 1, rows > max(Self.leastRows, group), !isBalanced(op.keyHeads) {
      rows /= 2
      addTasks(batch.count, group: group, rows: rows)
    }
    guard self.parts > 1, !isBalanced(op.keyHeads) else { return }
    try split(op, batch.count, group: group)
  }

  private func addTasks(_ count: Int, group: Int, rows: Int) {
    costs.removeAll(keepingCapacity: true)
    for index in 0..<count {
      let sequence = sequences.start[index]
      let all = Int(sequence.count) &* group
      var first = 0
      while first < all {
        let taken = min(rows, all &- first)
        let seen = Int(sequence.past) &+ (first &+ taken &- 1) / group &+ 1
        add(index, first: first, count: taken, spans: 0..<(seen &+ Self.span &- 1) / Self.span, keys: seen)
        first &+= taken
      }
    }
  }

  private func add(_ sequence: Int, first: Int, count: Int, spans: Range<Int>, keys: Int) {
    tasks.append(
      gd_cpu_attention_task(
        sequence: Int64(sequence), first_row: Int64(first), row_count: Int64(count),
        first_span: Int64(spans.lowerBound), end_span: Int64(spans.upperBound)), at: costs.count)
    // Reading keys and values costs as much as a few rows do.
    costs.append(Double(count &+ 4) * Double(keys) + 64)
  }

  /// True if every part gets about the same: the largest item is a small share, or there are as many items as parts.
  private func isBalanced(_ keyHeads: Int) -> Bool {
    let total = costs.reduce(0, +) * Double(keyHeads)
    let share = total / Double(parts)
    let largest = costs.max() ?? 0
    if largest * 4 <= share { return true }
    let items = costs.count &* keyHeads
    return items % parts == 0 && largest * Double(items) <= total * 1.05
  }

  /// Every span of every row separately, if there is room for the results.
  private func split(_ op: Attention, _ count: Int, group: Int) throws(Failure) {
    let width = ceil16(op.headDim) &+ 16
    var floats = 0
    var most: Int64 = 0
    for index in 0..<count {
      let sequence = sequences.start[index]
      let rows = Int(sequence.count) &* group &* op.keyHeads
      let (size, overflow) = rows.multipliedReportingOverflow(by: Int(sequence.spans) &* width)
      guard !overflow, size <= Self.mostPartialBytes / 4 else { return }
      floats &+= size
      guard floats <= Self.mostPartialBytes / 4 else { return }
      if sequence.count > 0 { most = max(most, sequence.spans) }
    }
    guard most > 1 else { return }
    if floats &* 4 > partialBytes || partials == nil {
      partials = nil
      partialBytes = 0
      partials = try PageRange(byteCount: floats &* 4, alignment: 4096)
      partialBytes = floats &* 4
    }
    guard var next = partials?.start.assumingMemoryBound(to: Float.self) else { return }
    hasPartials = true
    let whole = (0..<costs.count).map { tasks.start[$0] }
    costs.removeAll(keepingCapacity: true)
    for index in 0..<count {
      sequences.start[index].partials = next
      let sequence = sequences.start[index]
      next += Int(sequence.count) &* group &* op.keyHeads &* Int(sequence.spans) &* width
    }
    for task in whole {
      let seen = Int(sequences.start[Int(task.sequence)].past) &+ Int(task.first_row &+ task.row_count &- 1) / group &+ 1
      for span in 0..<Int(task.end_span) {
        let keys = min(Self.span, seen &- span &* Self.span)
        add(
          Int(task.sequence), first: Int(task.first_row), count: Int(task.row_count), spans: span..<span &+ 1,
          keys: keys)
      }
    }
  }

  private func ceil16(_ value: Int) -> Int { (value &+ 15) / 16 &* 16 }
}
