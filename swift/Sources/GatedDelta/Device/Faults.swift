import GatedDeltaTypes

/// Failures that a test requests with `gd_test_fail`: for each stage, the number of calls or ops until one fails (1 for
/// the next), 0 for none. Used by the owning thread only.
final class Faults {
  var encode: UInt64 = 0
  var commit: UInt64 = 0
  var run: UInt64 = 0

  func takeEncode() throws(Failure) {
    if encode == 0 { return }
    encode &-= 1
    if encode == 0 { throw Faults.failure("the op to be encoded", op: "") }
  }

  func takeCommit() throws(Failure) {
    if commit == 0 { return }
    commit &-= 1
    if commit == 0 { throw Faults.failure("the commit to succeed", op: "") }
  }

  /// The index of the op that fails among the next `count`.
  func takeRun(_ count: Int) -> Int? {
    if run == 0 { return nil }
    guard run <= UInt64(count) else {
      run &-= UInt64(count)
      return nil
    }
    defer { run = 0 }
    return Int(run) &- 1
  }

  static func failure(_ expected: String, op: StaticString) -> Failure {
    Failure(.device, op: "\(op)", expected: expected, received: "a failure that a test asked for")
  }
}
