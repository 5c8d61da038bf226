import GatedDeltaTypes
import ShaderParams
import Testing

@testable import MetalBackend

/// The text of every shader file, each once.
private let kernelSource = shaderPieces.joined()

/// The host's tables of the kernels agree with their text.
@Suite struct KernelTests {
  static let types: [DType] = [.f32, .f16, .bf16]

  /// Every kernel that the backend can ask for.
  static let reachable: [Kernel] = Kernel.Family.allCases.flatMap { family -> [Kernel] in
    switch family {
    case .gates, .expertSort: [Kernel(family: family)]
    case .conv, .convShift, .norm, .rmsNorm, .route, .topK, .topKMerge, .combineExperts: types.map { Kernel(family: family, activation: $0) }
    case .elementwise:
      ElementwiseOperation.allCases.flatMap { operation in
        types.map { Kernel(family: family, operation: operation, activation: $0) }
      }
    case .attentionCombine, .attentionMatrix: types.map { Kernel(family: family, activation: $0) }
    case .project, .expertProject, .embedding: matrices.map { Kernel(family: family, activation: $0.0, format: $0.1) }
    case .attentionPrepare: pairs.map { Kernel(family: family, activation: $0.0, storage: $0.1) }
    case .attention: types.flatMap { type in keys.map { Kernel(family: family, activation: type, keyClass: $0) } }
    case .decode, .prefill, .step:
      pairs.flatMap { pair in
        keys.map { Kernel(family: family, activation: pair.0, storage: pair.1, keyClass: $0) }
      }
    case .commit: types.flatMap { type in keys.map { Kernel(family: family, storage: type, keyClass: $0) } }
    case .gather, .copy: [.u16, .u32, .u128].map { Kernel(family: family, unit: $0) }
    }
  }
  private static let keys: [Kernel.KeyClass] = [.k64, .k128, .kany]
  private static let pairs = types.flatMap { a in types.map { (a, $0) } }
  /// A format for each way to unpack: those of other groups share its kernels.
  private static let formats = WeightFormat.allCases.filter { format in
    format == WeightFormat.allCases.first { $0.layout.kernel == format.layout.kernel }
  }
  private static let matrices = types.flatMap { a in formats.map { (a, $0) } }

  /// The kernels that the text instantiates by its macros, and plain ones. The macros' own lines name no function.
  static let declared: [String] = kernelSource.split(separator: "\n").flatMap { line -> [String] in
    if let name = between(line, "kernel void ", "("), !templates.contains(name) { return [name] }
    if line == "GDM_EACH_ELEMENTWISE(GDM_ELEMENTWISE)" {
      return ElementwiseOperation.allCases.flatMap { operation in types.map { "\(operation.kernel)_\($0.name)" } }
    }
    if line.hasPrefix("GDM_KERNEL("), let name = between(line, "GDM_KERNEL(\"", "\"") { return [name] }
    guard line.hasPrefix("GDM_INSTANTIATE_"), let letters = between(line, "GDM_INSTANTIATE_", "("),
      let function = between(line, "(", ")")
    else { return [] }
    let dtypes = ["_f32", "_f16", "_bf16"]
    var names = [function]
    for letter in letters {
      let endings = letter == "K" ? ["_k64", "_k128", "_kany"] : letter == "W" ? formats.map { "_" + $0.layout.kernel } : dtypes
      names = names.flatMap { name in endings.map { name + $0 } }
    }
    return names
  }
  private static let templates: Set<String> = Set(
    kernelSource.split(separator: "\n").compactMap { line in
      line.hasPrefix("GDM_") ? between(line, "(", ")").map { String($0.split(separator: ",").last ?? "") } : nil
    } + ["gd_slots_gather", "gd_slots_copy", "gd_elementwise"])

  static func between(_ line: Substring, _ start: String, _ end: String) -> String? {
    guard let from = line.firstRange(of: start)?.upperBound, let to = line[from...].firstRange(of: end)?.lowerBound
    else { return nil }
    return String(line[from..<to])
  }

  @Test func everyKernelThatTheBackendAsksForExists() {
    let missing = Set(Self.reachable.map(\.name)).subtracting(Self.declared)
    #expect(missing.isEmpty, "\(missing.sorted())")
    #expect(Set(Self.reachable.map(\.name)).count == Self.reachable.count && Self.reachable.count == 260)
  }

  @Test func everyKernelIsAskedFor() {
    #expect(Set(Self.declared).count == Self.declared.count)
    let unused = Set(Self.declared).subtracting(Self.reachable.map(\.name))
    #expect(unused.isEmpty, "\(unused.sorted())")
  }

  /// A family's kernels are in the text that is compiled for it, with all that this needs.
  @Test func everyFamilyIsInItsFile() throws {
    for family in Kernel.Family.allCases {
      let pieces = try #require(shaderFiles[family.file], "\(family)")
      let text = pieces.map { shaderPieces[$0] }.joined()
      #expect(text.hasPrefix("#line 1 \"shaders/\(family.file).metal\"\n"))
      #expect(text.contains(family == .elementwise ? "gd_elementwise" : family.rawValue), "\(family)")
      #expect(!text.contains("#include \""))
    }
    #expect(Set(Kernel.Family.allCases.map(\.file)) == Set(shaderFiles.keys))
  }

  /// `TILED_HEADS` to `tiledHeads`.
  static func swiftName(_ name: String) -> String {
    name.split(separator: "_").enumerated().map { index, word in
      word == "DTYPE" ? "DType" : index == 0 ? word.lowercased() : word == "F32" ? "F32" : word.capitalised
    }.joined()
  }

  @Test func functionConstantsAreThoseOfTheKernels() throws {
    var declared: [String: (index: Int, isBool: Bool)] = [:]
    for line in kernelSource.split(separator: "\n") {
      guard let head = Self.between(line, "constant ", " [[function_constant("),
        let index = Self.between(line, "[[function_constant(", ")]]").flatMap({ Int($0) })
      else { continue }
      let words = head.split(separator: " ").map(String.init)
      try #require(words.count == 2 && ["bool", "uint"].contains(words[0]), "\(line)")
      declared[Self.swiftName(words[1])] = (index, words[0] == "bool")
    }
    #expect(declared.count == Constants.Index.allCases.count)
    for index in Constants.Index.allCases {
      let found = try #require(declared["\(index)"], "no function constant for \(index)")
      #expect(found.index == index.rawValue && found.isBool == index.isBool, "\(index)")
    }
  }

  @Test func optionsHaveTheKernelsValues() {
    let dtypes: [DType] = [.f32, .f16, .bf16]
    #expect(dtypes.map { Int($0.rawValue) } == [GDM_F32, GDM_F16, GDM_BF16])
    #expect(
      GateForm.allCases.map { Int($0.rawValue) } == [
        GDM_GATE_DECAY, GDM_GATE_LOG, GDM_GATE_NEG_LOG, GDM_GATE_RAW, GDM_GATE_RAW_SSM, GDM_GATE_RAW_BOUNDED,
      ])
    #expect(BetaForm.allCases.map { Int($0.rawValue) } == [GDM_BETA_GIVEN, GDM_BETA_SIGMOID, GDM_BETA_TWICE_SIGMOID])
    #expect(QKNorm.allCases.map { Int($0.rawValue) } == [GDM_NORM_NONE, GDM_NORM_L2, GDM_NORM_L2_MAX, GDM_NORM_RMS])
    #expect([GDM_SLOT_NONE, GDM_SLOT_STAGED] == [-1, -2])
  }

  @Test func constantsAreKeptApart() {
    for index in Constants.Index.allCases {
      for value in UInt32(0)...15 {
        var constants = Constants()
        for other in Constants.Index.allCases where other != index { constants.set(other, 15 - value) }
        let without = constants
        #expect(constants[index] == nil)
        constants.set(index, 15 - value)
        constants.set(index, value)
        #expect(constants[index] == value)
        #expect(constants != without)
        #expect(Constants.Index.allCases.allSatisfy { $0 == index || constants[$0] == 15 - value })
      }
    }
    var (a, b) = (Constants(), Constants())
    a.set(.gateDType, DType.bf16)
    b.set(.gateDType, UInt32(3))
    a.set(.convBias, true)
    b.set(.convBias, UInt32(1))
    #expect(a == b && a.hashValue == b.hashValue)
  }

  /// Without a bound the compiler assumes the largest threadgroup, and gives a thread fewer registers. The projection and
  /// decode have none: how many threads their registers leave decides the rows of a tile and of a lane group.
  @Test func everyKernelHasABoundOnItsThreads() {
    let lines = kernelSource.split(separator: "\n")
    let unbounded = lines.indices.compactMap { index in
      let name = Self.between(lines[index], "kernel void ", "(")
      return name != nil && index > 0 && !lines[index - 1].hasPrefix("[[max_total_threads_per_threadgroup(") ? name : nil
    }
    #expect(unbounded == ["gd_expert_project", "gd_project", "gd_decode"])
    #expect(lines.contains("[[max_total_threads_per_threadgroup(GDM_STEP_THREADS)]]"))
  }

  @Test func threadgroupMemoryFits() {
    var largest = 0
    for keyDim in stride(from: 8, through: 256, by: 8) {
      for perKey in [false, true] {
        let prefills = [false, true].map { isFew in
          let shape = PrefillShape(Kernel.KeyClass(keyDim), isFew: isFew)
          return ThreadgroupBytes.prefill(tokens: shape.block, keyDim: keyDim, perKey: perKey)
        }
        for bytes in prefills {
          #expect(bytes > 0 && bytes % 4 == 0)
          largest = max(largest, bytes)
        }
      }
    }
    let rows = [1, GDM_PACKED_OUTPUTS].map { ThreadgroupBytes.packedRow(outputs: $0) }
    let matrices = [false, true].map { ThreadgroupBytes.projectMatrix(halves: $0) }
    for bytes in [ThreadgroupBytes.projectTile, ThreadgroupBytes.projectBlock] + rows + matrices {
      #expect(bytes > 0 && bytes % 16 == 0)
      largest = max(largest, bytes)
    }
    #expect(largest == 28736)
  }

  @Test func theSinkHoldsAPieceForEveryArgument() {
    #expect(31 * MetalBackend.sinkPiece <= MetalBackend.sinkBytes)
  }

  @Test func keyClassesAndUnits() {
    #expect([8, 64, 72, 128, 136, 256].map { Kernel.KeyClass($0) } == [.kany, .k64, .kany, .k128, .kany, .kany])
    #expect(Kernel.Unit(slotBytes: 64, offset: 32) == .u128 && Kernel.Unit(slotBytes: 64, offset: 4) == .u32)
    #expect(Kernel.Unit(slotBytes: 36, offset: 0) == .u32 && Kernel.Unit(slotBytes: 6, offset: 16) == .u16)
    #expect(Kernel.Unit(slotBytes: 64, offset: 2) == .u16)
  }
}

extension Substring {
  fileprivate var capitalised: String { prefix(1).uppercased() + dropFirst().lowercased() }
}
