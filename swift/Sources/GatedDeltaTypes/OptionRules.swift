extension DType {
  public var size: Int {
    switch self {
    case .u8: 1
    case .f16, .bf16: 2
    case .f32, .i32, .u32, .id32: 4
    }
  }
  public var name: String { publicName }
}

extension GateForm {
  /// The raw forms also take `aLog` and `dtBias`.
  public var isRaw: Bool { rawValue >= GateForm.raw.rawValue }
}
