import GatedDeltaTypes

/// Checks of single values.
enum Check {
  /// The option of a raw value, or a failure that lists the valid ones.
  static func option<Option: NamedOption>(_ raw: UInt32, _ name: StaticString) throws(Failure) -> Option {
    if let option = Option(rawValue: raw) { return option }
    throw Failure(
      .invalidArgument, argument: "\(name)", expected: "one of " + list(Option.allCases), received: "\(raw)")
  }

  private static func list(_ options: some Sequence<some NamedOption>) -> String {
    options.map { "\($0.publicName) (\($0.rawValue))" }.joined(separator: ", ")
  }

  static func convActivation(_ raw: UInt32, _ name: StaticString) throws(Failure) -> Activation {
    if let activation = Activation(rawValue: raw), activation != .sigmoid { return activation }
    throw Failure(
      .invalidArgument, argument: "\(name)", expected: "one of " + list([Activation.none, .silu]), received: "\(raw)")
  }

  static func normActivation(_ raw: UInt32, _ name: StaticString) throws(Failure) -> Activation {
    if let activation = Activation(rawValue: raw), activation != .none { return activation }
    throw Failure(
      .invalidArgument, argument: "\(name)", expected: "one of " + list([Activation.silu, .sigmoid]), received: "\(raw)")
  }

  static func epsilon(_ value: Float, _ name: StaticString) throws(Failure) -> Float {
    guard value.isFinite, value >= 0 else {
      throw Failure(
        .invalidArgument, argument: "\(name)", expected: "a finite number of at least 0", received: "\(value)")
    }
    return value
  }

  /// The factor of the query. NaN means the default: keyDim^-0.5, rounded once.
  static func scale(_ value: Float, keyDim: UInt32) throws(Failure) -> Float {
    if value.isNaN { return Float(1 / Double(keyDim).squareRoot()) }
    guard value.isFinite else {
      throw Failure(.invalidArgument, argument: "scale", expected: "a finite number", received: "\(value)")
    }
    return value
  }

  static func reserved(_ value: UInt32) throws(Failure) {
    guard value == 0 else {
      throw Failure(.invalidArgument, argument: "reserved", expected: "0", received: "\(value)")
    }
  }

  /// Key and value dimensions, which the kernels hold in registers. `argument` is the tensor that gave the dimension.
  static func headDim(_ value: UInt32, _ what: StaticString, of argument: StaticString) throws(Failure) {
    guard value >= 8, value <= 256, value % 8 == 0 else {
      throw Failure(
        .shape, argument: "\(argument)", expected: "a \(what) that is a multiple of 8 in 8..256", received: "\(value)")
    }
  }

  static func heads(key: UInt32, value: UInt32, of argument: StaticString) throws(Failure) {
    guard key >= 1, value >= 1, value % key == 0 else {
      throw Failure(
        .shape, argument: "\(argument)", expected: "a number of value heads that is a multiple of the key heads",
        received: "\(value) value heads and \(key) key heads")
    }
  }

  static func convWidth(_ value: UInt32, of argument: StaticString) throws(Failure) {
    guard value >= 2, value <= 9 else {
      throw Failure(.shape, argument: "\(argument)", expected: "a width of 2..9", received: "\(value)")
    }
  }

  static func sequences(_ value: UInt64, _ name: StaticString) throws(Failure) {
    guard value <= UInt64(SequenceRecipe.limit) else {
      throw Failure(
        .range, argument: "\(name)", expected: "at most \(SequenceRecipe.limit) sequences", received: "\(value)")
    }
  }
}
