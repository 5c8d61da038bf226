/// A product of rows with a matrix, plus an optional residual. See `gd_linear`.
public final class Linear: Sendable {
  public let rows: Int
  public let options: Options
  public let x: TensorView
  /// [outFeatures, inFeatures]
  public let matrix: Matrix
  public let residual: TensorView?
  public let out: TensorView
  /// True if `out` is the same memory as `residual`, in the same layout. Otherwise it overlaps no other tensor.
  public let replacesResidual: Bool

  public var inFeatures: Int { matrix.columns }
  public var outFeatures: Int { matrix.rows }

  public init(
    rows: Int, options: Options = Options(), x: TensorView, matrix: Matrix, residual: TensorView? = nil, out: TensorView,
    replacesResidual: Bool = false
  ) {
    self.rows = rows
    self.options = options
    self.x = x
    self.matrix = matrix
    self.residual = residual
    self.out = out
    self.replacesResidual = replacesResidual
  }
}

extension Op {
  /// How the op multiplies matrices.
  public var products: Products {
    switch self {
    case .linear(let op): op.options.products
    case .expertLinear(let op): op.options.products
    case .attention(let op, _): op.options.products
    default: .rows
    }
  }
}
