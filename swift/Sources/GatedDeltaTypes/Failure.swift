/// The reason why a call was refused or a submission failed: the status code of the C header, and its text.
public struct Failure: Error, Sendable {
  public enum Code: Int32, Sendable, CaseIterable {
    case invalidArgument = 2
    case shape = 3
    case dtype = 4
    case range = 5
    case overlap = 6
    case handle = 7
    case unsupported = 8
    case outOfMemory = 9
    case timeout = 10
    case device = 11
    case state = 12
    case `internal` = 13
    /// The argument is the file's path.
    case file = 14
  }

  public var code: Code
  /// The op, such as `gatedDelta`; empty outside ops. The core fills it in.
  public var op: String
  /// The argument by its public (TypeScript) name, such as `readSlots[2]`; empty if no single one is at fault.
  public var argument: String
  public var expected: String
  public var received: String

  public init(_ code: Code, op: String = "", argument: String = "", expected: String, received: String) {
    self.code = code
    self.op = op
    self.argument = argument
    self.expected = expected
    self.received = received
  }

  public var message: String {
    var text = op.isEmpty ? "" : op + ": "
    if !argument.isEmpty { text += argument + ": " }
    text += "expected " + expected
    if !received.isEmpty { text += ", got " + received }
    return text
  }
}
