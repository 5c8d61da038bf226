import GatedDeltaTypes
import ShaderParams

// Products of many rows as products of fewer: each row has the same bits whatever else is in its dispatch.

extension Linear {
  /// The same products, each of at most `workLimit` multiply-adds if one row has no more.
  func parts(workLimit: Int) -> [Linear] {
    rowRanges(rows, work: inFeatures * outFeatures, tiles: [GDM_BLOCK_ROWS, GDM_PROJECT_ROWS], workLimit: workLimit).map { part in
      Linear(
        rows: part.count, options: options, x: x.rows(from: part.lowerBound), matrix: matrix, residual: residual?.rows(from: part.lowerBound),
        out: out.rows(from: part.lowerBound), replacesResidual: replacesResidual)
    }
  }
}

extension ExpertLinear {
  /// As `Linear.parts`, by tokens, each with its first token.
  func parts(workLimit: Int) -> [(first: Int, op: ExpertLinear)] {
    rowRanges(tokens, work: chosen * inFeatures * outFeatures, tiles: [], workLimit: workLimit).map { part in
      let op = ExpertLinear(
        tokens: part.count, chosen: chosen, experts: experts, options: options, x: x.rows(from: part.lowerBound),
        sharesRows: sharesRows, matrices: matrices, ids: ids.from(element: part.lowerBound * chosen), out: out.rows(from: part.lowerBound))
      return (part.lowerBound, op)
    }
  }
}

/// Consecutive ranges of rows within a limit, in whole tiles of the first size of which one fits.
private func rowRanges(_ rows: Int, work: Int, tiles: [Int], workLimit: Int) -> [Range<Int>] {
  let fitting = max(1, workLimit / max(work, 1))
  let tile = tiles.first { $0 <= fitting } ?? 1
  let each = fitting / tile * tile
  return stride(from: 0, to: rows, by: each).map { $0..<min($0 + each, rows) }
}

extension TensorView {
  /// The rows from one on.
  func rows(from first: Int) -> TensorView { from(element: first * tokenStride) }

  func from(element: Int) -> TensorView {
    var rest = self
    rest.offset += element * dtype.size
    return rest
  }
}
