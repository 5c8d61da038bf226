extension DType {
  public var size: Int { self == .f16 || self == .bf16 ? 2 : 4 }
  public var name: String { publicName }
}

extension GateForm {
  /// The raw forms take `aLog` and `dtBias` beside the gate.
  public var isRaw: Bool { rawValue >= GateForm.raw.rawValue }
}
