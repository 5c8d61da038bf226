/// Crosses the boundary in place of a reference: kind, generation and index packed below 2^53, so that a JavaScript
/// number holds it exactly. Never 0, since no kind is 0.
struct Handle: RawRepresentable, Hashable, Sendable {
  enum Kind: UInt64, Sendable {
    case device = 1
    case buffer = 2
    case plan = 3

    /// With its article, for messages.
    var name: String {
      switch self {
      case .device: "a device"
      case .buffer: "a buffer"
      case .plan: "a plan"
      }
    }
  }

  static let indexBits: UInt64 = 22
  static let generationBits: UInt64 = 29
  static let indexLimit = 1 << Int(indexBits)
  static let generationLimit: UInt32 = 1 << UInt32(generationBits)

  let rawValue: UInt64

  /// Any 64 bits: the table decides what they mean.
  init(rawValue: UInt64) { self.rawValue = rawValue }

  init(kind: Kind, generation: UInt32, index: Int) {
    let packed = kind.rawValue << Handle.generationBits | UInt64(generation)
    rawValue = packed << Handle.indexBits | UInt64(truncatingIfNeeded: index)
  }

  /// Nil for numbers that are not handles.
  var kind: Kind? { Kind(rawValue: rawValue >> (Handle.indexBits &+ Handle.generationBits)) }
  var generation: UInt32 {
    UInt32(truncatingIfNeeded: rawValue >> Handle.indexBits) & (Handle.generationLimit &- 1)
  }
  var index: Int { Int(truncatingIfNeeded: rawValue & UInt64(Handle.indexLimit &- 1)) }
}
