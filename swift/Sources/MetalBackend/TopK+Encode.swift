import GatedDeltaTypes
import ShaderParams

extension Pass {
  /// Bytes for the lists of some rows' pieces, unless one row takes more.
  static var topKScratch: Int { 1 << 18 }

  mutating func encode(_ op: TopK) throws(Failure) {
    // Pieces of a row for each kernel in turn; the last kernel has one.
    var pieces = [ceilDiv(op.columns, TopK.piece)]
    while let last = pieces.last, last > 1 { pieces.append(ceilDiv(last * op.chosen, TopK.piece)) }
    let rowBytes = 8 * op.chosen * pieces.dropLast().reduce(0, +)
    let rowsEach = min(op.rows, max(1, Self.topKScratch / max(rowBytes, 1)))
    var lists: [Region] = []
    for count in pieces.dropLast() { lists.append(try arena.region(byteCount: rowsEach * 8 * op.chosen * count)) }
    for first in stride(from: 0, to: op.rows, by: rowsEach) {
      let rows = min(rowsEach, op.rows - first)
      let x = try Argument.reads(op.x.rows(from: first), tokens: rows, width: op.columns)
      let values = try Argument.writes(op.values.from(element: first * op.chosen), elements: rows * op.chosen)
      let ids = try Argument.writes(op.ids.from(element: first * op.chosen), elements: rows * op.chosen)
      for (level, count) in pieces.enumerated() {
        let out: [Argument] = level < lists.count ? [.writes(lists[level]), .absent, .absent] : [.absent, values, ids]
        let columns = level == 0 ? op.columns : pieces[level - 1] * op.chosen
        try dispatch(
          Kernel(family: level == 0 ? .topK : .topKMerge, activation: op.x.dtype),
          (level == 0 ? [x] : [x, .reads(lists[level - 1])]) + out,
          GDMTopK(
            columns: UInt32(element: columns), chosen: UInt32(element: op.chosen), pieces: UInt32(element: count),
            rowStride: UInt32(element: op.x.tokenStride)),
          groups: (count, rows, 1), threads: .exactly(GDM_TOP_K_THREADS),
          threadgroupBytes: ThreadgroupBytes.topK(chosen: op.chosen))
      }
    }
  }
}

extension TopK {
  /// Elements of a threadgroup.
  fileprivate static var piece: Int { GDM_TOP_K_THREADS * GDM_TOP_K_EACH }

  var work: Int { rows * columns }
}
