/// An operation on each pair of elements of two tensors of one shape.
public final class Elementwise: Sendable {
  public let operation: ElementwiseOperation
  public let tokens, heads, dim: Int
  public let a, b, out: TensorView
  /// True if `out` is the same memory as `a` or `b`, in the same layout. Otherwise it overlaps neither.
  public let replacesA, replacesB: Bool

  public init(
    _ operation: ElementwiseOperation, tokens: Int, heads: Int, dim: Int, a: TensorView, b: TensorView,
    out: TensorView, replacesA: Bool, replacesB: Bool
  ) {
    self.operation = operation
    self.tokens = tokens
    self.heads = heads
    self.dim = dim
    self.a = a
    self.b = b
    self.out = out
    self.replacesA = replacesA
    self.replacesB = replacesB
  }
}
