import CGatedDelta
import GatedDeltaTypes

extension gd_route: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    try Check.reserved(reserved)
    let options = try Route.Options(self)
    let dims = try validator.dims(self.logits, "logits", "[tokens, experts]", rank: 2)
    let (tokens, experts) = (dims[0], dims[1])
    try Check.experts(experts, "logits", "[tokens, experts]", dims)
    let chosen = try validator.dims(self.ids, "ids", "[tokens, k]", rank: 2)[1]
    guard chosen >= 1, chosen <= experts else {
      throw Failure(
        .shape, argument: "ids", expected: "[tokens, k] with k in 1..\(experts)", received: Dims(self.ids).text)
    }
    let logits = try validator.input(self.logits, "logits", dims, "[tokens, experts]", .floats)
    let ids = try validator.output(self.ids, "ids", Dims(tokens, chosen), "[tokens, k]", .id32, .block)
    let weights = try validator.output(self.weights, "weights", Dims(tokens, chosen), "[tokens, k]", .f32, .block)
    try validator.checkOverlaps()
    let op = Route(
      tokens: Int(tokens), experts: Int(experts), chosen: Int(chosen), options: options, logits: logits, ids: ids,
      weights: weights)
    try validator.finish(.route(op), isEmpty: tokens == 0)
  }
}

extension Check {
  /// The Metal kernels have a place in threadgroup memory for each.
  static func experts(_ count: UInt32, _ name: StaticString, _ layout: StaticString, _ dims: Dims) throws(Failure) {
    guard count >= 1, count <= 4096 else {
      throw Failure(.shape, argument: "\(name)", expected: "\(layout) with 1..4096 experts", received: dims.text)
    }
  }
}
