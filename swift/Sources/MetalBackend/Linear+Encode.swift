import GatedDeltaTypes
import ShaderParams

extension Pass {
  mutating func encode(_ op: Linear) throws(Failure) {
    guard op.rows > 0, op.outFeatures > 0 else { return }
    var kernel = Kernel(family: .project, activation: op.x.dtype, format: op.matrix.format)
    kernel.constants.set(.outF32, op.out.dtype == .f32)
    kernel.constants.setMatrix(op.matrix)
    kernel.constants.set(.alignedRows, op.x.isAligned(to: 8, rowsOf: op.inFeatures) && op.x.offset % 16 == 0)
    // A residual that is out itself is read from out: arguments may not overlap.
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
      &kernel, rows: op.rows == 1 ? 1 : op.rows <= 4 ? 4 : GDM_PROJECT_ROWS, of: op.matrix, outputs: op.outFeatures)
    try dispatch(
      kernel, arguments, params,
      groups: (ceilDiv(op.rows, shape.rows), shape.groups, 1), threads: .exactly(GDM_PROJECT_THREADS))
  }

  /// Sets the constants of a projection's kernel.
  /// - Parameter most: rows of a tile, at most.
  /// - Returns: rows of a tile, and threadgroups for all outputs.
  mutating func projectionShape(
    _ kernel: inout Kernel, rows most: Int, of matrix: Matrix, outputs: Int
  ) throws(Failure) -> (rows: Int, groups: Int) {
    var rows = most
    kernel.constants.set(.tileRows, UInt32(element: rows))
    let packedRow = rows == 1 && matrix.isPacked && outputs > Self.fewOutputs
    kernel.constants.set(.packedRow, packedRow)
    while rows > 2, try device.pipelines.pipeline(kernel).maxThreads < Self.threadsForManyRegisters {
      rows /= 2
      kernel.constants.set(.tileRows, UInt32(element: rows))
    }
    // Outputs of a simdgroup, as projection.h's Tile and packed_row.h define them.
    var each = GDM_PROJECT_TILE
    if packedRow {
      each = GDM_PACKED_OUTPUTS * GDM_SIMD_LANES / GDM_PACKED_LANES
    } else if rows == 1, matrix.isPacked {
      each = 1
    } else if rows == 1, matrix.format != .f32 {
      each = GDM_PROJECT_OUTPUTS_1
    }
    return (rows, ceilDiv(outputs, each * GDM_PROJECT_THREADS / GDM_SIMD_LANES))
  }

  /// Up to this many outputs of one row by packed weights have 32 lanes each; more have eight, which work less and wait
  /// more.
  private static var fewOutputs: Int { 2048 }

  /// A pipeline with fewer threads than this uses so many registers per thread that a smaller tile, or fewer rows,
  /// keeps more threads busy.
  static var threadsForManyRegisters: Int { 512 }
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
    set(.matrixDType, matrix.scales?.dtype ?? .f32)
    let shift = matrix.weight.shift
    set(.matrixShift, UInt32(shift))
    set(.matrixAlignment, UInt32(min((matrix.weight.offset - shift).trailingZeroBitCount, 4)))
    set(.scalesShift, UInt32(matrix.scales?.shift ?? 0))
    set(.biasesShift, UInt32(matrix.biases?.shift ?? 0))
  }
}
