extension DType {
  public var size: Int { self == .f32 || self == .i32 ? 4 : 2 }
  public var name: String { publicName }
}

extension GateForm {
  /// The raw forms take `aLog` and `dtBias` beside the gate.
  public var isRaw: Bool { rawValue >= GateForm.raw.rawValue }
}
