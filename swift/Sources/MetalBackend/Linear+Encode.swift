import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: Linear) throws(Failure) {
    guard op.rows > 0, op.outFeatures > 0 else { return }
    var kernel = Kernel(family: .project, activation: op.x.dtype, format: op.matrix.format)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    kernel.constants.setMatrix(op.matrix)
    kernel.constants.set(.alignedRows, op.x.isAligned(to: 8, rowsOf: op.inFeatures) && op.x.offset % 16 == 0)
    // A residual that is out itself is read from out: arguments must not overlap.
    var residual = Argument.absent
    if let tensor = op.residual, !op.replacesResidual {
      residual = try .reads(tensor, tokens: op.rows, width: op.outFeatures)
    }
    let arguments: [Argument] = try [
      .reads(op.x, tokens: op.rows, width: op.inFeatures),
      .blocks(of: op.matrix), .companion(op.matrix.scales, of: op.matrix), .companion(op.matrix.biases, of: op.matrix),
      residual, .writes(op.out, tokens: op.rows, width: op.outFeatures),
    ]
    let params = GDMProject(
      rows: UInt32(element: op.rows), inputs: UInt32(element: op.inFeatures),
      outputs: UInt32(element: op.outFeatures), xRowStride: UInt32(element: op.x.tokenStride),
      outRowStride: UInt32(element: op.out.tokenStride),
      residualRowStride: UInt32(element: op.residual?.tokenStride ?? 0), residual: op.residualKind,
      unit: UInt32(element: GDM_PROJECT_UNIT))

    let shape = try projectionShape(
      &kernel, rows: op.rows == 1 ? 1 : op.rows <= 4 ? 4 : GDM_PROJECT_ROWS, of: op.matrix, outputs: op.outFeatures,
      all: op.rows, op.options.products)
    try dispatch(
      kernel, arguments, params,
      groups: (ceilDiv(op.rows, shape.rows), shape.groups, 1), threads: .exactly(GDM_PROJECT_THREADS),
      threadgroupBytes: shape.threadgroupBytes)
  }

  /// Sets the constants of a projection's kernel, for the form that gives the GPU's cores enough threadgroups.
  /// - Parameters:
  ///   - most: the most rows of a tile, if blocks are not worthwhile.
  ///   - all: rows that a matrix has at once.
  ///   - together: dispatched single rows that have as many outputs each.
  mutating func projectionShape(
    _ kernel: inout Kernel, rows most: Int, of matrix: Matrix, outputs: Int, all: Int, together: Int = 1, _ products: Products
  ) throws(Failure) -> ProjectionShape {
    kernel.constants.set(.packedRow, false)
    kernel.constants.set(.manyRows, false)
    kernel.constants.set(.manyTurns, 0)
    kernel.constants.set(.twoOutputs, false)
    kernel.constants.set(.tileRows, UInt32(element: most))
    kernel.constants.set(.matrices, products == .matrix)
    kernel.constants.set(.matrixHalves, products == .matrix)
    if products == .matrix {
      kernel.constants.set(.manyRows, true)
      let halves = try takes(.matrixHalves, kernel)
      kernel.constants.set(.matrixHalves, halves)
      return ProjectionShape(
        rows: GDM_BLOCK_ROWS, groups: ceilDiv(outputs, GDM_BLOCK_ROWS),
        threadgroupBytes: ThreadgroupBytes.projectMatrix(halves: halves))
    }
    let blocks = ceilDiv(outputs, GDM_BLOCK_OUTPUTS)
    if all >= GDM_BLOCK_ROWS, ceilDiv(all, GDM_BLOCK_ROWS) * blocks >= 2 * fewThreadgroups {
      kernel.constants.set(.manyRows, true)
      if try takes(.blocks, kernel) {
        return ProjectionShape(rows: GDM_BLOCK_ROWS, groups: blocks, threadgroupBytes: ThreadgroupBytes.projectBlock)
      }
      kernel.constants.set(.manyRows, false)
    }
    var rows = most
    while rows > 2, try !takes(rows == 4 ? .fourRows : .eightRows, kernel) {
      rows /= 2
      kernel.constants.set(.tileRows, UInt32(element: rows))
    }
    // Outputs of a simdgroup, as projection.h's Tile and packed_row.h define them.
    let simdgroups = GDM_PROJECT_THREADS / GDM_SIMD_LANES
    let each = rows > 1 || matrix.format == .f32 ? GDM_PROJECT_TILE : GDM_PROJECT_OUTPUTS_1
    if rows == 1, matrix.isPacked {
      // Eight lanes per output work least and wait most: for as many threadgroups as hide the waiting, or for short rows.
      let inEights = GDM_SIMD_LANES / GDM_PACKED_LANES * simdgroups
      let groups = ceilDiv(outputs, inEights)
      let all = groups * together
      // In that form a lane takes 32 columns at a time.
      if matrix.columns % 32 == 0, all >= 4 * fewThreadgroups || (all > fewThreadgroups && outputs > matrix.columns) {
        kernel.constants.set(.packedRow, true)
        var two = kernel
        two.constants.set(.twoOutputs, true)
        guard matrix.format.hasTwoOutputs, all >= 4 * fewThreadgroups, try takes(.twoOutputs, two) else {
          return ProjectionShape(rows: 1, groups: groups, threadgroupBytes: ThreadgroupBytes.packedRow(outputs: 1))
        }
        kernel = two
        return ProjectionShape(
          rows: 1, groups: ceilDiv(outputs, GDM_PACKED_OUTPUTS * inEights),
          threadgroupBytes: ThreadgroupBytes.packedRow(outputs: GDM_PACKED_OUTPUTS))
      }
    }
    var of = each
    if rows == 1, matrix.format.hasManyTurns {
      // One output per simdgroup if all of them run at the same time.
      let one = ceilDiv(outputs, simdgroups) * together <= 5 * fewThreadgroups
      var many = kernel
      many.constants.set(.manyTurns, UInt32(element: one ? 1 : each))
      if try takes(.manyTurns, many) { (kernel, of) = (many, one ? 1 : each) }
    }
    return ProjectionShape(rows: rows, groups: ceilDiv(outputs, of * simdgroups), threadgroupBytes: ThreadgroupBytes.projectTile)
  }
}

/// How a projection is spread: rows of a tile, threadgroups for all outputs, and their memory.
struct ProjectionShape {
  let rows: Int
  let groups: Int
  let threadgroupBytes: Int
}

extension WeightFormat {
  /// True if the scales of blocks take many operations, which packed_row.h does for two outputs at the same time.
  var hasTwoOutputs: Bool {
    switch self {
    case .q4K, .q5K, .q6K: true
    default: false
    }
  }

  /// True for the formats of projection.h's ManyTurns.
  fileprivate var hasManyTurns: Bool {
    switch self {
    case .affine4G32, .affine4G64, .affine4G128: true
    default: false
    }
  }
}

extension Linear {
  var work: Int { rows * inFeatures * outFeatures }

  fileprivate var residualKind: UInt32 {
    guard let residual else { return UInt32(GDM_RESIDUAL_NONE) }
    if replacesResidual { return UInt32(GDM_RESIDUAL_OUT) }
    return UInt32(residual.dtype == .f32 ? GDM_RESIDUAL_F32 : GDM_RESIDUAL_T)
  }
}

extension Argument {
  /// The blocks of a matrix.
  static func blocks(of matrix: Matrix) throws(Failure) -> Argument {
    .reads(try matrix.weight.region(around: matrix.rows * matrix.format.layout.stored(columns: matrix.columns)))
  }

  /// Scales or biases; absent if there are none.
  static func companion(_ tensor: TensorView?, of matrix: Matrix) throws(Failure) -> Argument {
    guard let tensor else { return .absent }
    return .reads(try tensor.region(around: matrix.rows * (matrix.columns / matrix.format.layout.elements)))
  }
}

extension Constants {
  mutating func setMatrix(_ matrix: Matrix) {
    set(.matrixGroup, UInt32(matrix.format.layout.elements.trailingZeroBitCount))
    set(.matrixVariant, UInt32(element: matrix.format.layout.variant))
    set(.matrixDType, matrix.scales?.dtype ?? .f32)
    var place = matrix.weight
    if let pieces = place.memory.pieces { place.offset = pieces.commonOffset }
    set(.matrixShift, UInt32(place.shift))
    var multiples = min((place.offset - place.shift).trailingZeroBitCount, 4)
    // Rows of blocks that hold all of their factors have any even number of bytes.
    if matrix.isPacked, matrix.scales == nil {
      let layout = matrix.format.layout
      multiples = min(multiples, (matrix.columns / layout.elements * layout.bytes).trailingZeroBitCount)
    }
    set(.matrixAlignment, UInt32(multiples))
    set(.scalesShift, UInt32(matrix.scales?.shift ?? 0))
    set(.biasesShift, UInt32(matrix.biases?.shift ?? 0))
  }
}
