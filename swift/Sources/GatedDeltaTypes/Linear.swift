/// A product of rows with a matrix, plus an optional residual. See `gd_linear`.
public final class Linear: Sendable {
  public let rows, inFeatures, outFeatures: Int
  public let x: TensorView
  /// [outFeatures, inFeatures]; see `Quantisation`.
  public let weight: TensorView
  public let quantisation: Quantisation?
  public let residual: TensorView?
  public let out: TensorView
  /// True if `out` is the same memory as `residual`, in the same layout. Otherwise it overlaps no other tensor.
  public let replacesResidual: Bool

  public init(
    rows: Int, inFeatures: Int, outFeatures: Int, x: TensorView, weight: TensorView, quantisation: Quantisation? = nil,
    residual: TensorView? = nil, out: TensorView, replacesResidual: Bool = false
  ) {
    self.rows = rows
    self.inFeatures = inFeatures
    self.outFeatures = outFeatures
    self.x = x
    self.weight = weight
    self.quantisation = quantisation
    self.residual = residual
    self.out = out
    self.replacesResidual = replacesResidual
  }
}

/// MLX's affine form of a matrix [rows, columns], which is then of u32 words, contiguous: a row is one little-endian
/// stream of numbers q, and element = fma(q, scale, bias). Its view's token stride is the words of a row.
public struct Quantisation: Sendable {
  /// Bits of a number: 2, 3, 4, 5, 6 or 8.
  public let bits: Int
  /// Columns that share a scale and a bias: 32, 64 or 128. The number of columns is a multiple of it.
  public let group: Int
  /// [rows, columns / group], contiguous, both of one float dtype.
  public let scales, biases: TensorView

  public init(bits: Int, group: Int, scales: TensorView, biases: TensorView) {
    self.bits = bits
    self.group = group
    self.scales = scales
    self.biases = biases
  }
}
