import Metal
import Synchronization

/// A library that is made once, when it is first needed: other threads wait meanwhile. A failure is kept as well, since a refused
/// library would be refused again.
final class OnceLibrary: Sendable {
  private struct Made: @unchecked Sendable {
    let result: Result<any MTLLibrary, any Error>
  }
  private let make: @Sendable () throws -> any MTLLibrary
  private let made = Mutex<Made?>(nil)

  init(_ make: @escaping @Sendable () throws -> any MTLLibrary) { self.make = make }

  var library: any MTLLibrary {
    get throws {
      try made.withLock { made in
        if let made { return made }
        let now = Made(result: Result(catching: make))
        made = now
        return now
      }.result.get()
    }
  }
}
