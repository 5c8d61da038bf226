/// Products of rows with the matrices of experts. See `gd_expert_linear`.
public final class ExpertLinear: Sendable {
  /// `chosen`: experts of a token.
  public let tokens, chosen, experts: Int
  public let options: Options
  /// If `sharesRows`, a token's row serves all of its experts, and the view has no heads; else it has one head for each.
  public let x: TensorView
  public let sharesRows: Bool
  /// The experts' matrices as one, [experts * outFeatures, inFeatures].
  public let matrices: Matrix
  /// [tokens, chosen]. They may be any numbers: the kernel that reads them checks them.
  public let ids: TensorView
  public let out: TensorView

  public var inFeatures: Int { matrices.columns }
  public var outFeatures: Int { matrices.rows / experts }
  /// Rows of `out`.
  public var rows: Int { tokens * chosen }

  public init(
    tokens: Int, chosen: Int, experts: Int, options: Options = Options(), x: TensorView, sharesRows: Bool,
    matrices: Matrix, ids: TensorView, out: TensorView
  ) {
    self.tokens = tokens
    self.chosen = chosen
    self.experts = experts
    self.options = options
    self.x = x
    self.sharesRows = sharesRows
    self.matrices = matrices
    self.ids = ids
    self.out = out
  }

  /// The failure of a submission that has read an id of no expert for that row of `out`.
  public func failure(id: Int32, row: Int) -> Failure {
    Failure(
      .range, argument: "ids[\(row / chosen), \(row % chosen)]", expected: "an expert, 0..\(experts - 1)",
      received: "\(id)")
  }
}
