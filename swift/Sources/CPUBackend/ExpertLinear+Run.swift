import CPUKernels
import GatedDeltaTypes

extension Executor {
  /// The rows of each expert go through its matrix as those of a `linear` do.
  func run(_ op: ExpertLinear) throws(Failure) {
    if let form = op.options.activations.form(of: op.matrices) { return try run(op, form) }
    var x = gd_cpu_tensor(op.x)
    if op.sharesRows { x.head_stride = 0 }
    run(op, tokens: 0..<op.tokens, by: kernels.expert_linear, x: x, rounded: nil)
  }

  /// Some tokens, by a kernel.
  /// - Parameter rounded: the rows of these tokens, if the kernel takes them instead of x.
  func run(
    _ op: ExpertLinear, tokens: Range<Int>, by kernel: OpaqueRun?, x: gd_cpu_tensor, rounded: UnsafePointer<gd_cpu_int8_rows>?
  ) {
    let plan = expertPlan
    let wrong = plan.make(op, tokens: tokens)
    var params = gd_cpu_expert_linear(
      linear: gd_cpu_linear(
        rows: 0, out_features: Int64(op.outFeatures), x: x, residual: gd_cpu_tensor(nil),
        out: gd_cpu_tensor(op.out, from: tokens.lowerBound), weight: gd_cpu_matrix(op.matrices),
        places: UnsafePointer(plan.places.start), ranks: Int64(op.chosen), rounded: rounded, arranged: nil),
      groups: UnsafePointer(plan.groups.start), group_count: Int64(plan.costs.count),
      pieces: op.matrices.weight.memory.pieces == nil
        ? nil : UnsafePointer(op.matrices.weight.pointer.assumingMemoryBound(to: UnsafeRawPointer?.self)))
    let items = Int(gd_cpu_expert_linear_items(&params))
    if items > 0 {
      let products = plan.costs.reduce(0, +) * Double(op.inFeatures) * Double(op.outFeatures)
      launch(kernel, &params, cut(plan.costs, itemsEach: items, parts: smallParts(nanoseconds: products * 0.05)))
    }
    if let wrong { fail(op.failure(id: wrong.id, row: wrong.row)) }
  }
}

/// The rows of an expertLinear by expert.
final class ExpertPlan {
  fileprivate private(set) var groups = GrowingBuffer<gd_cpu_expert_group>()
  fileprivate private(set) var places = GrowingBuffer<Int32>()
  private var copies = GrowingBuffer<Int32>()
  private var counts = GrowingBuffer<Int64>()
  /// The cost of each group's items, in units of a single row's.
  fileprivate private(set) var costs: [Double] = []

  /// Reading a matrix costs more than multiplying a row by it once it is read.
  private static let costOfRow = 0.2

  /// - Returns: the first row with an id of no expert, and that id.
  fileprivate func make(_ op: ExpertLinear, tokens: Range<Int>) -> (row: Int, id: Int32)? {
    let first = tokens.lowerBound &* op.chosen
    let rows = tokens.count &* op.chosen
    counts.reserve(op.experts &+ 1)
    copies.reserve(rows)
    places.reserve(rows)
    groups.reserve(min(rows, op.experts &+ 1))
    let ids = op.ids.pointer.assumingMemoryBound(to: Int32.self) + first
    var wrong: Int64 = -1
    let count = gd_cpu_expert_groups(
      ids, Int64(rows), Int64(op.experts), counts.start, copies.start, places.start, groups.start, &wrong)
    costs.removeAll(keepingCapacity: true)
    for group in 0..<Int(count) {
      let rows = groups.start[group].expert < 0 ? 0 : Double(groups.start[group].count)
      costs.append(1 - Self.costOfRow + Self.costOfRow * rows)
    }
    return wrong < 0 ? nil : (first &+ Int(wrong), ids[Int(wrong)])
  }
}
