import GatedDeltaTypes

/// Checks of single values.
enum Check {
  /// The option of a raw value, or a failure that lists the valid ones.
  static func option<Option: NamedOption>(_ raw: UInt32, _ name: StaticString) throws(Failure) -> Option {
    if let option = Option(rawValue: raw) { return option }
    throw Failure(
      .invalidArgument, argument: "\(name)", expected: "one of " + list(Option.allCases), received: "\(raw)")
  }

  /// One of the option's values that an argument takes.
  static func option<Option: NamedOption & Equatable>(
    _ raw: UInt32, _ name: StaticString, among options: [Option]
  ) throws(Failure) -> Option {
    if let option = Option(rawValue: raw), options.contains(option) { return option }
    throw Failure(.invalidArgument, argument: "\(name)", expected: "one of " + list(options), received: "\(raw)")
  }

  private static func list(_ options: some Sequence<some NamedOption>) -> String {
    options.map { "\($0.publicName) (\($0.rawValue))" }.joined(separator: ", ")
  }

  static func boolean(_ raw: UInt32, _ name: StaticString) throws(Failure) -> Bool {
    guard raw <= 1 else {
      throw Failure(.invalidArgument, argument: "\(name)", expected: "0 or 1", received: "\(raw)")
    }
    return raw == 1
  }

  static func integer(_ raw: some BinaryInteger, _ name: StaticString, from least: Int) throws(Failure) -> Int {
    guard raw >= least else {
      throw Failure(
        .invalidArgument, argument: "\(name)", expected: "an integer of at least \(least)", received: "\(raw)")
    }
    return Int(raw)
  }

  static func number(_ value: Float, _ name: StaticString) throws(Failure) -> Float {
    guard value.isFinite else {
      throw Failure(.invalidArgument, argument: "\(name)", expected: "a finite number", received: "\(value)")
    }
    return value
  }

  static func number(_ value: Float, _ name: StaticString, from least: Int) throws(Failure) -> Float {
    guard value.isFinite, value >= Float(least) else {
      throw Failure(
        .invalidArgument, argument: "\(name)", expected: "a finite number of at least \(least)", received: "\(value)")
    }
    return value
  }

  static func number(_ value: Float, _ name: StaticString, above limit: Int) throws(Failure) -> Float {
    guard value.isFinite, value > Float(limit) else {
      throw Failure(
        .invalidArgument, argument: "\(name)", expected: "a finite number above \(limit)", received: "\(value)")
    }
    return value
  }

  /// The factor of the query. NaN means the default: keyDim^-0.5, rounded once.
  static func scale(_ value: Float, keyDim: UInt32) throws(Failure) -> Float {
    if value.isNaN { return Float(1 / Double(keyDim).squareRoot()) }
    return try number(value, "scale")
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
