import CPUKernels
import GatedDeltaTypes

/// Consecutive linears that multiply the same few rows, as one job: each job costs some microseconds, in which memory is idle.
struct LinearGroup: ~Copyable {
  private var members: [Linear] = []
  private var params = GrowingBuffer<gd_cpu_linear>()

  /// Jobs of more rows are long, and those of several panels of x count their items differently.
  private static let mostRows = 16
  private static let mostMembers = 8

  var count: Int { members.count }
  var outFeatures: Int { members.reduce(0) { $0 &+ $1.outFeatures } }

  /// Takes the linear at `index` and those after it that may run with it; none if another op is there.
  mutating func take(_ ops: [EncodedOp], from index: Int) {
    clear()
    var next = index
    while next < ops.count, count < LinearGroup.mostMembers, case .linear(let op) = ops[next].op, admits(op) {
      members.append(op)
      next &+= 1
    }
  }

  /// Keeps nothing of a submission.
  mutating func clear() { members.removeAll(keepingCapacity: true) }

  private func admits(_ op: Linear) -> Bool {
    guard let first = members.first else { return true }
    guard op.rows <= LinearGroup.mostRows, op.multipliesRows(of: first), first.residual == nil, op.residual == nil,
      op.matrix.format == first.matrix.format, op.options.activations == first.options.activations
    else { return false }
    return members.allSatisfy { $0.isIndependent(of: op) }
  }

  /// Forgets rows that the linears have written over.
  func forget(in held: inout HeldRows) { for op in members { held.forget(writtenBy: op) } }

  /// The kernel's parameters: `shared`, which has the first linear's, with the weight and the results of each; `out` from row `first` on. They are
  /// valid until the next call.
  mutating func parameters(_ shared: gd_cpu_linear, run: OpaqueRun?, from first: Int = 0) -> gd_cpu_linears {
    params.reserve(count)
    for (index, op) in members.enumerated() {
      params.start[index] = shared
      params.start[index].out_features = Int64(op.outFeatures)
      params.start[index].weight = gd_cpu_matrix(op.matrix)
      params.start[index].out = gd_cpu_tensor(op.out, from: first)
    }
    return gd_cpu_linears(run: run, ops: UnsafePointer(params.start), count: Int64(count))
  }
}

extension gd_cpu_linears {
  /// Blocks of outputs of all linears.
  var items: Int64 { (0..<Int(count)).reduce(0) { $0 &+ gd_cpu_linear_items(ops + $1) } }
}

extension Linear {
  fileprivate func multipliesRows(of other: Linear) -> Bool {
    rows == other.rows && inFeatures == other.inFeatures && x.pointer == other.x.pointer && x.dtype == other.x.dtype
      && x.tokenStride == other.x.tokenStride
  }

  /// Whether neither writes where the other reads or writes. Both must multiply the same rows, which no output overlaps, and have no residual.
  fileprivate func isIndependent(of other: Linear) -> Bool { !writes(where: other) && !other.writes(where: self) }

  private func writes(where other: Linear) -> Bool {
    let own = Extent(out, rows: rows, columns: outFeatures)
    let matrix = other.matrix
    let stored = matrix.columns / matrix.format.layout.elements
    return own.overlaps(Extent(other.out, rows: other.rows, columns: other.outFeatures))
      || own.overlaps(Extent(matrix.weight, rows: 1, columns: matrix.rows &* matrix.format.layout.stored(columns: matrix.columns)))
      || matrix.scales.map { own.overlaps(Extent($0, rows: 1, columns: matrix.rows &* stored)) } ?? false
      || matrix.biases.map { own.overlaps(Extent($0, rows: 1, columns: matrix.rows &* stored)) } ?? false
  }
}
