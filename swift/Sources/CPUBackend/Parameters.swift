import CPUKernels
import GatedDeltaTypes

/// A kernel: see `gd_cpu_run`.
typealias OpaqueRun = @convention(c) (
  UnsafeRawPointer?, Int64, Int64, UnsafeMutableRawPointer?, UnsafePointer<UInt32>?
) -> Void

/// From validated values to the kernels' parameters, field by field.

extension gd_cpu_tensor {
  init(_ view: TensorView) {
    self.init(
      data: view.pointer, token_stride: Int64(view.tokenStride), head_stride: Int64(view.headStride),
      dtype: view.dtype.rawValue)
  }

  /// The tensor from a token on.
  init(_ view: TensorView, from token: Int) {
    self.init(view)
    data += token &* view.tokenStride &* view.dtype.size
  }

  /// NULL if there is none.
  init(_ view: TensorView?) {
    if let view {
      self.init(view)
    } else {
      self.init(data: nil, token_stride: 0, head_stride: 0, dtype: DType.f32.rawValue)
    }
  }
}

extension gd_cpu_heads {
  init(_ op: GatedDelta) {
    self.init(
      key_heads: Int64(op.keyHeads), value_heads: Int64(op.valueHeads), key_dim: Int64(op.keyDim),
      value_dim: Int64(op.valueDim), head_map: op.options.headMap.rawValue, qk_norm: op.options.qkNorm.rawValue,
      qk_norm_eps: op.options.qkNormEps, scale: op.options.scale)
  }

  init(_ op: GatedDeltaStep) {
    self.init(
      key_heads: Int64(op.keyHeads), value_heads: Int64(op.valueHeads), key_dim: Int64(op.keyDim),
      value_dim: Int64(op.valueDim), head_map: op.options.headMap.rawValue, qk_norm: op.options.qkNorm.rawValue,
      qk_norm_eps: op.options.qkNormEps, scale: op.options.scale)
  }
}

extension gd_cpu_heads {
  /// Only the shape: a commit normalises nothing.
  init(_ op: CommitGatedDelta) {
    self.init(
      key_heads: Int64(op.keyHeads), value_heads: Int64(op.valueHeads), key_dim: Int64(op.keyDim),
      value_dim: Int64(op.valueDim), head_map: op.options.headMap.rawValue, qk_norm: QKNorm.none.rawValue,
      qk_norm_eps: 0, scale: 1)
  }
}

extension gd_cpu_records {
  /// NULL if there are none.
  init(_ records: Records?) {
    func floats(_ view: TensorView?) -> UnsafeMutablePointer<Float>? {
      view?.pointer.assumingMemoryBound(to: Float.self)
    }
    self.init(key: floats(records?.key), delta: floats(records?.delta), decay: floats(records?.decay))
  }
}

extension gd_cpu_gates {
  init(_ op: GatedDelta) {
    self.init(
      gate_form: op.options.gateForm.rawValue, gate_dims: op.options.gateDims.rawValue,
      beta_form: op.options.betaForm.rawValue, bound: op.options.gateBound, gate: gd_cpu_tensor(op.gate),
      beta: gd_cpu_tensor(op.beta), a_log: gd_cpu_tensor(op.raw?.aLog), dt_bias: gd_cpu_tensor(op.raw?.dtBias))
  }

  init(_ op: GatedDeltaStep) {
    self.init(
      gate_form: op.options.gateForm.rawValue, gate_dims: op.options.gateDims.rawValue,
      beta_form: op.options.betaForm.rawValue, bound: op.options.gateBound, gate: gd_cpu_tensor(op.gate),
      beta: gd_cpu_tensor(op.beta), a_log: gd_cpu_tensor(op.raw?.aLog), dt_bias: gd_cpu_tensor(op.raw?.dtBias))
  }
}

extension Sequences {
  /// The number of rows of all sequences together.
  var rowCount: Int { Int(starts[count]) }

  /// The rows of one sequence that the op takes.
  func rows(of index: Int) -> Int64 {
    if let counts { return Int64(counts[index]) }
    return Int64(starts[index &+ 1]) &- Int64(starts[index])
  }

  func cost(of index: Int, base: Int) -> Double { Double(starts[index &+ 1]) - Double(starts[index]) + Double(base) }
}

/// The slots of a pool; empty without a pool.
struct Pool: @unchecked Sendable {
  private let start: UnsafeMutableRawPointer?
  let slotBytes: Int
  let dtype: UInt32

  init(_ view: TensorView?, slotElements: Int) {
    start = view?.pointer
    slotBytes = slotElements &* (view?.dtype.size ?? 0)
    dtype = (view?.dtype ?? .f32).rawValue
  }

  static let none = Pool(nil, slotElements: 0)
  var exists: Bool { start != nil }

  /// Nil for -1.
  func slot(_ index: Int32) -> UnsafeMutableRawPointer? {
    guard let start, index >= 0 else { return nil }
    return start + Int(index) &* slotBytes
  }
}

/// Plain memory that is reused from op to op and never shrinks.
struct GrowingBuffer<Element: BitwiseCopyable>: ~Copyable {
  private(set) var start: UnsafeMutablePointer<Element>
  private var capacity: Int

  init() {
    capacity = 16
    start = .allocate(capacity: 16)
  }

  deinit { start.deallocate() }

  /// Adds an element after the first `count`, which stay.
  mutating func append(_ element: Element, at count: Int) {
    if count >= capacity {
      let larger = UnsafeMutablePointer<Element>.allocate(capacity: capacity &* 2)
      larger.update(from: start, count: count)
      start.deallocate()
      start = larger
      capacity &*= 2
    }
    start[count] = element
  }

  mutating func reserve(_ count: Int) {
    guard count > capacity else { return }
    start.deallocate()
    capacity = max(count, capacity &* 2)
    start = .allocate(capacity: capacity)
  }
}

/// Memory that is reused from op to op and never shrinks.
final class ReusedPages {
  private var pages: PageRange?
  private var capacity = 0

  /// At least `bytes` bytes, from a multiple of 4096 on; their old contents are lost.
  func reserve(_ bytes: Int) throws(Failure) -> UnsafeMutableRawPointer {
    if let pages, bytes <= capacity { return pages.start }
    pages = nil
    let larger = try PageRange(byteCount: bytes, alignment: 4096)
    pages = larger
    capacity = bytes
    return larger.start
  }
}
