extension DType {
  public var size: Int { self == .f16 || self == .bf16 ? 2 : 4 }
  public var name: String { publicName }
}

extension GateForm {
  /// The raw forms also take `aLog` and `dtBias`.
  public var isRaw: Bool { rawValue >= GateForm.raw.rawValue }
}
