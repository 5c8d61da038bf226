import GatedDeltaTypes
import ShaderParams

/// An attention while it is encoded: the data that its parts share. A part is a number of tasks of query rows, limited
/// by the memory for results of their spans and by the time that a command buffer may take.
struct AttentionParts {
  fileprivate let op: Attention
  fileprivate let pageTable: Region
  fileprivate let prepared: Region
  fileprivate let tasks: [GDMAttentionTask]
  /// Spans of a threadgroup, and so of a result.
  fileprivate let spansEach: Int
  /// Query rows of a task, at most.
  fileprivate let rows: Int
  /// Indices of the tasks of each part.
  fileprivate let ranges: [Range<Int>]
  /// Memory for the results of a part, and for their maxima and sums; parts use it one after the other.
  fileprivate let partial: Region
  fileprivate let sums: Region
  var parts: Int { ranges.count }
}

extension GDMAttentionTask {
  /// The number of spans that its last row sees.
  fileprivate func spans(group: Int) -> Int {
    ceilDiv(Int(past) + (Int(firstRow) + Int(rows) - 1) / group + 1, GDM_ATTENTION_SPAN)
  }
}

extension Pass {
  /// Bytes for the results of one part, unless one task takes more.
  static var attentionScratch: Int { 32 << 20 }

  mutating func encode(_ op: Attention, _ sequences: Sequences) throws(Failure) {
    guard let attention = try begin(op, sequences, workLimit: device.workLimit.value) else { return }
    for part in 0..<attention.parts { try encode(attention, part: part) }
  }

  /// Prepares the queries, and stores keys and values; nil if there is nothing to do.
  mutating func begin(_ op: Attention, _ sequences: Sequences, workLimit: Int) throws(Failure) -> AttentionParts? {
    let tokens = Int(sequences.starts.last ?? 0)
    guard let pages = sequences.pages, tokens > 0 else { return nil }
    let prepared = try arena.region(byteCount: tokens * op.heads * op.headDim * 4)
    try prepare(op, sequences, pages, tokens: tokens, prepared)

    let byMatrix = op.options.products == .matrix
    let rows = byMatrix ? GDM_MATRIX_ROWS : GDM_ATTENTION_ROWS
    var tasks: [GDMAttentionTask] = []
    var spans = 0
    let group = op.heads / op.keyHeads
    for sequence in 0..<sequences.count {
      let count = Int(sequences.starts[sequence + 1] - sequences.starts[sequence])
      for first in stride(from: 0, to: count * group, by: rows) {
        let task = GDMAttentionTask(
          firstToken: sequences.starts[sequence], past: pages.pastTokens[sequence],
          pages: Int32(truncatingIfNeeded: sequence * pages.pagesPerSequence),
          firstRow: Int32(truncatingIfNeeded: first),
          rows: Int32(truncatingIfNeeded: min(rows, count * group - first)), place: 0)
        spans += task.spans(group: group)
        tasks.append(task)
      }
    }
    // Two spans per threadgroup leave half as many results; with few threadgroups a GPU has cores for each span.
    let spansEach = !byMatrix && spans * op.keyHeads >= 4 * fewThreadgroups ? 2 : 1
    let resultBytes = op.keyHeads * rows * op.headDim * 4
    let spanWork = 2 * op.keyHeads * rows * op.headDim * GDM_ATTENTION_SPAN
    let most = max(1, min(Self.attentionScratch / resultBytes, workLimit / (spanWork * spansEach)))
    let (ranges, results) = Self.ranges(of: tasks.map { ceilDiv($0.spans(group: group), spansEach) }, most: most)
    return AttentionParts(
      op: op, pageTable: try arena.region(copying: pages.pageTable), prepared: prepared, tasks: tasks,
      spansEach: spansEach, rows: rows, ranges: ranges, partial: try arena.region(byteCount: results * resultBytes),
      sums: try arena.region(byteCount: results * op.keyHeads * rows * 8))
  }

  /// Neighbouring tasks with at most `most` results together, or one with more; and the most results of any range.
  private static func ranges(of results: [Int], most: Int) -> (ranges: [Range<Int>], results: Int) {
    var ranges: [Range<Int>] = []
    var (first, sum, largest) = (0, 0, 0)
    for (task, count) in results.enumerated() {
      if task > first, sum + count > most {
        ranges.append(first..<task)
        (first, sum) = (task, 0)
      }
      sum += count
      largest = max(largest, sum)
    }
    return (ranges + [first..<results.count], largest)
  }

  mutating func encode(_ attention: AttentionParts, part: Int) throws(Failure) {
    let op = attention.op
    let group = op.heads / op.keyHeads
    var tasks: [Int32] = []
    var threadgroups: [Int32] = []
    var mostSpans = 0
    for task in attention.tasks[attention.ranges[part]] {
      let spans = task.spans(group: group)
      let fields = [task.firstToken, task.past, task.pages, task.firstRow, task.rows]
      tasks += fields + [Int32(truncatingIfNeeded: threadgroups.count / 6)]
      for span in stride(from: 0, to: spans, by: attention.spansEach) {
        threadgroups += fields
        threadgroups.append(Int32(truncatingIfNeeded: span))
      }
      mostSpans = max(mostSpans, spans)
    }
    let pageElements = op.pages * op.keyHeads * op.pageTokens * op.headDim
    let byMatrix = op.options.products == .matrix
    try dispatch(
      Kernel(
        family: byMatrix ? .attentionMatrix : .attention, activation: op.keyPages.dtype,
        keyClass: byMatrix ? nil : Kernel.KeyClass(op.headDim)),
      [
        .reads(attention.prepared), .reads(op.keyPages, elements: pageElements),
        .reads(op.valuePages, elements: pageElements), .reads(attention.pageTable),
        .reads(try arena.region(copying: threadgroups)), .writes(attention.partial), .writes(attention.sums),
      ],
      GDMAttention(
        heads: UInt32(element: op.heads), keyHeads: UInt32(element: op.keyHeads), dim: UInt32(element: op.headDim),
        pageTokens: UInt32(element: op.pageTokens), spans: UInt32(element: attention.spansEach)),
      groups: (threadgroups.count / 6, op.keyHeads, 1), threads: .exactly(GDM_ATTENTION_THREADS))

    // One simdgroup per row if rows fill the GPU, else one for each of a row's chains.
    let isFew = tasks.count / 6 * op.keyHeads * attention.rows <= 8 * fewThreadgroups
    let simdgroups = isFew ? min(GDM_ATTENTION_CHAINS, ceilDiv(mostSpans, 2)) : 1
    var kernel = Kernel(family: .attentionCombine, activation: op.query.dtype)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    var gate = Argument.absent
    if let view = op.gate { gate = try .reads(view, tokens: op.tokens, heads: op.heads, width: op.headDim) }
    try dispatch(
      kernel,
      [
        .reads(attention.partial), .reads(attention.sums), .reads(try arena.region(copying: tasks)), gate,
        .writes(op.out, tokens: op.tokens, heads: op.heads, width: op.headDim),
      ],
      GDMAttentionCombine(
        heads: UInt32(element: op.heads), keyHeads: UInt32(element: op.keyHeads), dim: UInt32(element: op.headDim),
        spans: UInt32(element: attention.spansEach), rows: UInt32(element: attention.rows), hasGate: op.gate == nil ? 0 : 1,
        gateTokenStride: UInt32(element: op.gate?.tokenStride ?? 0),
        gateHeadStride: UInt32(element: op.gate?.headStride ?? 0),
        outTokenStride: UInt32(element: op.out.tokenStride), outHeadStride: UInt32(element: op.out.headStride)),
      groups: (tasks.count / 6, op.keyHeads, attention.rows),
      threads: .exactly(GDM_SIMD_LANES * simdgroups))
  }

  private mutating func prepare(
    _ op: Attention, _ sequences: Sequences, _ pages: PagedSequences, tokens: Int, _ prepared: Region
  ) throws(Failure) {
    var places: [UInt32] = []
    places.reserveCapacity(tokens)
    for sequence in 0..<sequences.count {
      let past = Int(pages.pastTokens[sequence])
      for row in 0..<Int(sequences.starts[sequence + 1] - sequences.starts[sequence]) {
        let page = Int(pages.pageTable[sequence * pages.pagesPerSequence + (past + row) / op.pageTokens])
        places.append(UInt32(element: page * op.keyHeads * op.pageTokens + (past + row) % op.pageTokens))
      }
    }
    let angles =
      op.options.rotaryDim == 0 ? Argument.absent : .reads(try arena.region(copying: pages.rotation.map(\.bitPattern)))
    let pageElements = op.pages * op.keyHeads * op.pageTokens * op.headDim
    try dispatch(
      Kernel(family: .attentionPrepare, activation: op.query.dtype, storage: op.keyPages.dtype),
      [
        .reads(op.query, tokens: tokens, heads: op.heads, width: op.headDim),
        .reads(op.key, tokens: tokens, heads: op.keyHeads, width: op.headDim),
        .reads(op.value, tokens: tokens, heads: op.keyHeads, width: op.headDim),
        .reads(op.queryNorm, elements: op.headDim), .reads(op.keyNorm, elements: op.headDim), angles,
        .reads(try arena.region(copying: places)), .writes(op.keyPages, elements: pageElements),
        .writes(op.valuePages, elements: pageElements), .writes(prepared),
      ],
      GDMAttentionPrepare(
        tokens: UInt32(element: tokens), heads: UInt32(element: op.heads), keyHeads: UInt32(element: op.keyHeads),
        dim: UInt32(element: op.headDim), rotary: UInt32(element: op.options.rotaryDim),
        pageTokens: UInt32(element: op.pageTokens),
        queryTokenStride: UInt32(element: op.query.tokenStride), queryHeadStride: UInt32(element: op.query.headStride),
        keyTokenStride: UInt32(element: op.key.tokenStride), keyHeadStride: UInt32(element: op.key.headStride),
        valueTokenStride: UInt32(element: op.value.tokenStride), valueHeadStride: UInt32(element: op.value.headStride),
        queryNormDType: op.queryNorm?.dtype.rawValue ?? 0, keyNormDType: op.keyNorm?.dtype.rawValue ?? 0,
        plusOne: op.options.weightForm == .plusOne ? 1 : 0, epsilon: op.options.normEps, scale: op.options.scale),
      groups: (ceilDiv(tokens * (op.heads + op.keyHeads), GDM_ATTENTION_PREPARE_ROWS), 1, 1),
      threads: .exactly(GDM_ATTENTION_PREPARE_ROWS * GDM_SIMD_LANES))
  }
}

extension Attention {
  func work(_ sequences: Sequences) -> Int {
    guard let pages = sequences.pages else { return 0 }
    var pairs = 0
    for sequence in 0..<sequences.count {
      let count = Int(sequences.starts[sequence + 1] - sequences.starts[sequence])
      pairs += count * (Int(pages.pastTokens[sequence]) + count)
    }
    let (work, overflow) = pairs.multipliedReportingOverflow(by: 2 * heads * headDim)
    return overflow ? Int.max / 2 : work
  }
}
