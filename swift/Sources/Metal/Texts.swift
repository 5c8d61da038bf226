import Synchronization

/// Texts, each with its contents, which are read once: every device has the same texts of the same kernels, and tests open hundreds.
final class Texts<Value: Sendable>: Sendable {
  private let read: @Sendable (String) -> Value
  private let known = Mutex<[String: Value]>([:])

  init(_ read: @escaping @Sendable (String) -> Value) { self.read = read }

  subscript(text: String) -> Value {
    known.withLock { known in
      if let value = known[text] { return value }
      let value = read(text)
      known[text] = value
      return value
    }
  }
}
