/// The options of the ops, one enum each. Raw values are those of the C header, so that the boundary is a plain
/// `init(rawValue:)`; a test compares the two.

public enum DType: UInt32, Sendable, CaseIterable {
  case f32 = 1
  case f16 = 2
  case bf16 = 3
  case i32 = 4

  public var size: Int { self == .f32 || self == .i32 ? 4 : 2 }
  public var name: String {
    switch self {
    case .f32: "f32"
    case .f16: "f16"
    case .bf16: "bf16"
    case .i32: "i32"
    }
  }
}

public enum BackendKind: UInt32, Sendable {
  case cpu = 1
  case metal = 2
}

/// How the decay a in (0, 1] comes from what is given.
public enum GateForm: UInt32, Sendable, CaseIterable {
  case decay = 1
  case log = 2
  case negLog = 3
  case raw = 4
  case rawSSM = 5
  case rawBounded = 6

  /// The raw forms take `aLog` and `dtBias` beside the gate.
  public var isRaw: Bool { rawValue >= GateForm.raw.rawValue }
}

public enum GateDims: UInt32, Sendable, CaseIterable {
  case perHead = 1
  /// KDA: one gate for every key dimension.
  case perKey = 2
}

public enum BetaForm: UInt32, Sendable, CaseIterable {
  case given = 1
  case sigmoid = 2
  case twiceSigmoid = 3
}

/// Which key head serves value head hv.
public enum HeadMap: UInt32, Sendable, CaseIterable {
  /// hv / (valueHeads / keyHeads)
  case block = 1
  /// hv % keyHeads
  case tiled = 2
}

public enum QKNorm: UInt32, Sendable, CaseIterable {
  case none = 1
  case l2 = 2
  case l2Max = 3
  case rms = 4
}

public enum Algorithm: UInt32, Sendable, CaseIterable {
  case auto = 0
  case recurrent = 1
  case chunked = 2
}

public enum Activation: UInt32, Sendable, CaseIterable {
  case none = 1
  case silu = 2
  case sigmoid = 3
}

public enum NormOrder: UInt32, Sendable, CaseIterable {
  case normThenGate = 1
  case gateThenNorm = 2
}
