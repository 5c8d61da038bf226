import GatedDeltaTypes

/// Identifies an instantiation of a kernel with its function constants: the key of the pipeline cache. Small and flat,
/// so that looking a pipeline up for a dispatch neither builds a name nor allocates.
struct Kernel: Hashable {
  enum Family: String, CaseIterable {
    case gates = "gd_gates"
    case decode = "gd_decode"
    case prefill = "gd_prefill"
    case conv = "gd_conv"
    case norm = "gd_norm"
    case rmsNorm = "gd_rms_norm"
    case project = "gd_project"
    case expertProject = "gd_expert_project"
    case expertSort = "gd_expert_sort"
    case route = "gd_route"
    case topK = "gd_top_k"
    case topKMerge = "gd_top_k_merge"
    case combineExperts = "gd_combine_experts"
    case embedding = "gd_embedding"
    case elementwise = "gd_elementwise"
    case step = "gd_step"
    case gather = "gd_slots_gather"
    case copy = "gd_slots_copy"
    case commit = "gd_commit"
    case convShift = "gd_conv_shift"
    case attentionPrepare = "gd_attention_prepare"
    case attention = "gd_attention"
    case attentionMatrix = "gd_attention_matrix"
    case attentionCombine = "gd_attention_combine"

    /// The file of shaders/ with its kernels, without `.metal`.
    var file: String {
      switch self {
      case .gates: "gates"
      case .decode: "recurrence_decode"
      case .prefill: "recurrence_prefill"
      case .conv, .convShift: "conv"
      case .norm: "norm"
      case .rmsNorm: "rms_norm"
      case .project: "projection"
      case .expertProject: "expert_projection"
      case .expertSort: "expert_sort"
      case .route: "route"
      case .topK, .topKMerge: "top_k"
      case .combineExperts: "combine_experts"
      case .embedding: "embedding"
      case .elementwise: "elementwise"
      case .step: "step"
      case .gather, .copy: "slots"
      case .commit: "recurrence_commit"
      case .attentionPrepare: "attention_prepare"
      case .attention: "attention"
      case .attentionMatrix: "attention_matrix"
      case .attentionCombine: "attention_combine"
      }
    }
  }

  /// The key dimensions that have their own kernel; a function of the dimension alone, since bits depend on it.
  enum KeyClass: String {
    case k64, k128, kany
    init(_ keyDim: Int) { self = keyDim == 64 ? .k64 : keyDim == 128 ? .k128 : .kany }
  }

  /// The unit in which a slot is copied: the widest one that divides it.
  enum Unit: Int {
    case u16 = 2
    case u32 = 4
    case u128 = 16
  }

  var family: Family
  /// Of an elementwise op.
  var operation: ElementwiseOperation?
  var activation: DType?
  var storage: DType?
  var format: WeightFormat?
  var keyClass: KeyClass?
  var unit: Unit?
  var constants = Constants()

  /// The instantiation: an enumeration of strings would be compared and hashed as strings.
  private var instantiation: UInt64 {
    func byte<Value>(_ value: Value, _ place: UInt64) -> UInt64 {
      withUnsafeBytes(of: value) { UInt64($0.load(as: UInt8.self)) << (8 * place) }
    }
    return byte(family, 0) | byte(activation, 1) | byte(storage, 2) | byte(keyClass, 3) | byte(unit, 4) | byte(format, 5)
      | byte(operation, 6)
  }

  static func == (a: Kernel, b: Kernel) -> Bool { a.instantiation == b.instantiation && a.constants == b.constants }

  func hash(into hasher: inout Hasher) {
    hasher.combine(instantiation)
    hasher.combine(constants)
  }

  /// The `host_name` of this instantiation in the shader.
  var name: String {
    var name = operation?.kernel ?? family.rawValue
    if let activation { name += "_" + activation.name }
    if let storage { name += "_" + storage.name }
    if let format { name += "_" + format.layout.kernel }
    if let keyClass { name += "_" + keyClass.rawValue }
    switch unit {
    case .u16: name += "_u16"
    case .u32: name += "_u32"
    case .u128: name += "_u128"
    case nil: break
    }
    return name
  }
}

/// Function constants by their index in shaders/options.h. Every value fits four bits.
struct Constants: Hashable {
  enum Index: Int, CaseIterable {
    case tiledHeads = 0
    case gatePerKey = 1
    case qkNorm = 2
    case outF32 = 3
    case hasStores = 4
    case record = 5
    case smallBatch = 6
    case resolveGates = 7
    case gateForm = 8
    case betaForm = 9
    case gateDType = 10
    case betaDType = 11
    case aLogDType = 12
    case dtBiasDType = 13
    case parts = 14
    case normWeightVectors = 15
    case convWidth = 16
    case convBias = 17
    case convSilu = 18
    case convStateF32 = 19
    case convWeightDType = 20
    case convBiasDType = 21
    case convUpdate = 22
    case matrixGroup = 23
    case normSigmoid = 24
    case normGateFirst = 25
    case normXF32 = 26
    case normWeightDType = 27
    case alignedRows = 28
    case tileRows = 29
    case normParts = 30
    case matrixDType = 31
    case packedRow = 32
    case outAtOnce = 33
    case matrixAlignment = 34
    case matrixShift = 35
    case scalesShift = 36
    case biasesShift = 37
    case matrixVariant = 38
    case matrixPieces = 39
    case manyRows = 40
    case matrices = 41
    case manyTurns = 42
    case twoOutputs = 43
    case matrixHalves = 44

    var isBool: Bool {
      switch self {
      case .tiledHeads, .gatePerKey, .outF32, .hasStores, .record, .smallBatch, .resolveGates, .parts, .convBias,
        .convSilu, .convStateF32, .normSigmoid, .normGateFirst, .normXF32, .normWeightVectors, .alignedRows, .packedRow, .manyRows, .twoOutputs, .matrices, .matrixHalves, .outAtOnce, .matrixPieces:
        true
      default: false
      }
    }
  }

  private var present: UInt64 = 0
  private var low: UInt64 = 0
  private var middle: UInt64 = 0
  private var high: UInt64 = 0

  subscript(index: Index) -> UInt32? {
    guard present >> UInt64(index.rawValue) & 1 == 1 else { return nil }
    let word = index.rawValue < 16 ? low : index.rawValue < 32 ? middle : high
    return UInt32(word >> UInt64(index.rawValue % 16 * 4) & 15)
  }

  mutating func set(_ index: Index, _ value: UInt32) {
    let shift = UInt64(index.rawValue % 16 * 4)
    let bits = UInt64(value & 15) << shift
    let keep = ~(UInt64(15) << shift)
    switch index.rawValue {
    case ..<16: low = low & keep | bits
    case ..<32: middle = middle & keep | bits
    default: high = high & keep | bits
    }
    present |= 1 << UInt64(index.rawValue)
  }

  mutating func set(_ index: Index, _ value: Bool) { set(index, value ? 1 : 0) }
  mutating func set(_ index: Index, _ value: DType) { set(index, value.rawValue) }
}
