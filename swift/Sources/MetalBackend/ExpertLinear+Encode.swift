import GatedDeltaTypes
import ShaderParams

extension Pass {
  /// Few rows: each takes its expert's matrix. Many: they are sorted by expert first, so that a matrix is read for several
  /// rows at a time. The choice changes no bit.
  ///
  /// - Parameter firstToken: the first of the caller's tokens in this op, if it is a part.
  mutating func encode(_ op: ExpertLinear, firstToken: Int = 0) throws(Failure) {
    let check = try IndexCheck(op, firstToken: firstToken, &arena)
    checks.append(check)
    var kernel = Kernel(family: .expertProject, activation: op.x.dtype, format: op.matrices.format)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    kernel.constants.setMatrix(op.matrices)
    let pieces = op.matrices.weight.memory.pieces
    kernel.constants.set(.matrixPieces, pieces != nil)
    kernel.constants.set(.alignedRows, op.x.isAligned(to: 8, rowsOf: op.inFeatures) && op.x.offset % 16 == 0)
    let rowsOfExpert = op.rows / op.experts
    let isSorted = rowsOfExpert > 0
    let most = !isSorted ? 1 : rowsOfExpert <= 2 ? 2 : rowsOfExpert <= 4 ? 4 : GDM_PROJECT_ROWS
    let shape = try projectionShape(
      &kernel, rows: most, of: op.matrices, outputs: op.outFeatures, all: isSorted ? rowsOfExpert : 1, together: op.rows,
      op.options.products)
    var groups = op.rows
    var (ids, places, tiles) = (try Argument.reads(op.ids, elements: op.rows), Argument.absent, Argument.absent)
    // Without outputs, there are only ids to check.
    if isSorted || op.outFeatures == 0 {
      let sorted = try sort(op, tileRows: shape.rows, check.region)
      (ids, places, tiles) = (.absent, .reads(sorted.places), .reads(sorted.tiles))
      groups = sorted.count
    }
    let shared = op.sharesRows
    try dispatch(
      kernel,
      [
        .reads(op.x, tokens: op.tokens, heads: shared ? 1 : op.chosen, width: op.inFeatures), try blocks(of: op),
        .companion(op.matrices.scales, of: op.matrices), .companion(op.matrices.biases, of: op.matrices), ids, places, tiles,
        isSorted ? .absent : .writes(check.region),
        .writes(op.out, tokens: op.tokens, heads: op.chosen, width: op.outFeatures),
        try .buffer(0, of: pieces), try .buffer(1, of: pieces), try .buffer(2, of: pieces), try .buffer(3, of: pieces),
      ],
      GDMProject(
        rows: UInt32(element: op.rows), inputs: UInt32(element: op.inFeatures), outputs: UInt32(element: op.outFeatures),
        xRowStride: 0, outRowStride: 0, residualRowStride: 0, residual: UInt32(GDM_RESIDUAL_NONE),
        unit: UInt32(element: GDM_PROJECT_UNIT)),
      .experts(
        GDMExperts(
          experts: UInt32(element: op.experts), ranks: UInt32(element: op.chosen),
          xTokenStride: UInt32(element: op.x.tokenStride), xRankStride: shared ? 0 : UInt32(element: op.x.headStride),
          outTokenStride: UInt32(element: op.out.tokenStride), outRankStride: UInt32(element: op.out.headStride))),
      groups: (groups, shape.groups, 1), threads: .exactly(GDM_PROJECT_THREADS), threadgroupBytes: shape.threadgroupBytes)
  }

  /// The experts' matrices, or the table of their places.
  private func blocks(of op: ExpertLinear) throws(Failure) -> Argument {
    let weight = op.matrices.weight
    guard let pieces = weight.memory.pieces else { return try .blocks(of: op.matrices) }
    var table = weight
    table.dtype = .u8
    return .reads(try table.region(elements: MemoryLayout<UInt64>.stride * pieces.pieces.count))
  }

  /// The rows by expert, in tiles of `tileRows`: all tiles of an expert except the last are full.
  private mutating func sort(
    _ op: ExpertLinear, tileRows: Int, _ check: Region
  ) throws(Failure) -> (places: Region, tiles: Region, count: Int) {
    let buckets = min(op.experts + 1, op.rows)
    let count = (op.rows + buckets * (tileRows - 1)) / tileRows
    let places = try arena.region(byteCount: 4 * op.rows)
    let tiles = try arena.region(byteCount: MemoryLayout<GDMExpertTile>.stride * count)
    try dispatch(
      Kernel(family: .expertSort),
      [.reads(op.ids, elements: op.rows), .writes(places), .writes(tiles), .writes(check)],
      GDMExpertSort(
        rows: UInt32(element: op.rows), experts: UInt32(element: op.experts), tileRows: UInt32(element: tileRows),
        tiles: UInt32(element: count)),
      groups: (1, 1, 1), threads: .exactly(GDM_EXPERT_SORT_THREADS),
      threadgroupBytes: ThreadgroupBytes.expertSort(experts: op.experts))
    return (places, tiles, count)
  }
}

extension Argument {
  /// The whole of a buffer that contains pieces; absent if there are not that many buffers.
  fileprivate static func buffer(_ index: Int, of pieces: JoinedPieces?) throws(Failure) -> Argument {
    guard let pieces, index < pieces.buffers.count else { return .absent }
    let memory = pieces.buffers[index]
    return .reads(try TensorView(memory: memory, offset: 0, dtype: .u8, tokenStride: 0, headStride: 0).region(elements: memory.byteCount))
  }
}

extension ExpertLinear {
  var work: Int { rows * inFeatures * outFeatures }
}
