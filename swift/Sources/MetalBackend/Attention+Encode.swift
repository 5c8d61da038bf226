import GatedDeltaTypes
import ShaderParams

/// An attention while it is encoded: the data that its parts share. A part is a number of tasks of query rows, limited
/// by the memory for results of their spans and by the time that a command buffer may take.
struct AttentionParts {
  fileprivate let op: Attention
  fileprivate let pageTable: Region
  fileprivate let prepared: Region
  fileprivate let tasks: [GDMAttentionTask]
  /// The number of spans of the longest sequence.
  fileprivate let spans: Int
  fileprivate var tasksEach = 1
  /// Memory for the results of a part's spans, and for their maxima and sums; parts use it one after the other.
  fileprivate let partial: Region
  fileprivate let sums: Region
  fileprivate(set) var parts = 1
}

extension Pass {
  /// Bytes for the results of the spans of one part, unless one task takes more.
  static var attentionScratch: Int { 32 << 20 }

  mutating func encode(_ op: Attention, _ sequences: Sequences) throws(Failure) {
    guard let attention = try begin(op, sequences, workLimit: device.workLimit) else { return }
    for part in 0..<attention.parts { try encode(attention, part: part) }
  }

  /// Prepares the queries, and stores keys and values; nil if there is nothing to do.
  mutating func begin(_ op: Attention, _ sequences: Sequences, workLimit: Int) throws(Failure) -> AttentionParts? {
    let tokens = Int(sequences.starts.last ?? 0)
    guard let pages = sequences.pages, tokens > 0 else { return nil }
    let prepared = try arena.region(byteCount: tokens * op.heads * op.headDim * 4)
    try prepare(op, sequences, pages, tokens: tokens, prepared)

    var tasks: [GDMAttentionTask] = []
    var spans = 1
    let group = op.heads / op.keyHeads
    for sequence in 0..<sequences.count {
      let count = Int(sequences.starts[sequence + 1] - sequences.starts[sequence])
      guard count > 0 else { continue }
      let past = pages.pastTokens[sequence]
      spans = max(spans, ceilDiv(Int(past) + count, GDM_ATTENTION_SPAN))
      for first in stride(from: 0, to: count * group, by: GDM_ATTENTION_ROWS) {
        tasks.append(
          GDMAttentionTask(
            firstToken: sequences.starts[sequence], past: past,
            pages: Int32(truncatingIfNeeded: sequence * pages.pagesPerSequence),
            firstRow: Int32(truncatingIfNeeded: first),
            rows: Int32(truncatingIfNeeded: min(GDM_ATTENTION_ROWS, count * group - first))))
      }
    }
    let rowsOfTask = op.keyHeads * spans * GDM_ATTENTION_ROWS
    let byMemory = Self.attentionScratch / (rowsOfTask * op.headDim * 4)
    let byWork = workLimit / (2 * rowsOfTask * op.headDim * GDM_ATTENTION_SPAN)
    let tasksEach = min(tasks.count, max(1, min(byMemory, byWork)))
    return AttentionParts(
      op: op, pageTable: try arena.region(copying: pages.pageTable), prepared: prepared, tasks: tasks, spans: spans,
      tasksEach: tasksEach, partial: try arena.region(byteCount: tasksEach * rowsOfTask * op.headDim * 4),
      sums: try arena.region(byteCount: tasksEach * rowsOfTask * 8), parts: ceilDiv(tasks.count, tasksEach))
  }

  mutating func encode(_ attention: AttentionParts, part: Int) throws(Failure) {
    let op = attention.op
    let first = part * attention.tasksEach
    let part = attention.tasks[first..<min(first + attention.tasksEach, attention.tasks.count)]
    let tasks = try arena.region(copying: part.flatMap { [$0.firstToken, $0.past, $0.pages, $0.firstRow, $0.rows] })
    let pageElements = op.pages * op.keyHeads * op.pageTokens * op.headDim
    try dispatch(
      Kernel(family: .attention, activation: op.keyPages.dtype, keyClass: Kernel.KeyClass(op.headDim)),
      [
        .reads(attention.prepared), .reads(op.keyPages, elements: pageElements),
        .reads(op.valuePages, elements: pageElements), .reads(attention.pageTable), .reads(tasks),
        .writes(attention.partial), .writes(attention.sums),
      ],
      GDMAttention(
        heads: UInt32(element: op.heads), keyHeads: UInt32(element: op.keyHeads), dim: UInt32(element: op.headDim),
        pageTokens: UInt32(element: op.pageTokens), spans: UInt32(element: attention.spans)),
      groups: (attention.spans, part.count, op.keyHeads), threads: .exactly(GDM_ATTENTION_THREADS))

    var kernel = Kernel(family: .attentionCombine, activation: op.query.dtype)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    var gate = Argument.absent
    if let view = op.gate { gate = try .reads(view, tokens: op.tokens, heads: op.heads, width: op.headDim) }
    try dispatch(
      kernel,
      [
        .reads(attention.partial), .reads(attention.sums), .reads(tasks), gate,
        .writes(op.out, tokens: op.tokens, heads: op.heads, width: op.headDim),
      ],
      GDMAttentionCombine(
        heads: UInt32(element: op.heads), keyHeads: UInt32(element: op.keyHeads), dim: UInt32(element: op.headDim),
        spans: UInt32(element: attention.spans), hasGate: op.gate == nil ? 0 : 1,
        gateTokenStride: UInt32(element: op.gate?.tokenStride ?? 0),
        gateHeadStride: UInt32(element: op.gate?.headStride ?? 0),
        outTokenStride: UInt32(element: op.out.tokenStride), outHeadStride: UInt32(element: op.out.headStride)),
      groups: (part.count, op.keyHeads, 1), threads: .exactly(GDM_ATTENTION_THREADS))
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
