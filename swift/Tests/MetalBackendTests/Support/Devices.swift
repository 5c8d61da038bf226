import GatedDeltaTypes
import Testing

@testable import MetalBackend

#if os(Linux)
  import CEmulator
  import Glibc
  @testable import Metal
#else
  import Metal
#endif

#if os(Linux)
  private func noKernels() -> UnsafePointer<CChar>? {
    let text: StaticString = "{\"kernels\": []}"
    return UnsafeRawPointer(text.utf8Start).assumingMemoryBound(to: CChar.self)
  }
#endif

/// Devices for tests. On a Mac there is one, the real one; here they are emulated, and their kernels need the
/// translated library.
enum Devices {
  #if os(Linux)
    /// A device that runs nothing, for tests that only need memory.
    static func bare() throws -> any MTLDevice {
      var functions = emulator_functions()
      functions.reflection = noKernels
      functions.source = { nil }
      return try #require(EmulatedDevice(functions: functions, settings: .init()))
    }

    static var haveDevice: Bool { true }
    static var haveKernels: Bool { translatedKernels != nil }

    /// The library of `npm run emulator`, or the one that GATED_DELTA_METAL_EMULATOR names, as lib/native has it.
    static let translatedKernels: String? = {
      if let named = getenv("GATED_DELTA_METAL_EMULATOR") { return named[0] == 0 ? nil : String(cString: named) }
      let root = "\(#filePath)".split(separator: "/").dropLast(5).joined(separator: "/")
      let path = "/\(root)/.build/emulator/libGatedDeltaShaders.so"
      return access(path, R_OK) == 0 ? path : nil
    }()

    /// The translated kernels on a GPU with these settings; `change` may break the library.
    static func emulated(
      _ settings: EmulatedDevice.Settings = .init(), _ change: (inout emulator_functions) -> Void = { _ in }
    ) throws -> EmulatedDevice {
      let path = try #require(translatedKernels)
      var functions = emulator_functions()
      if let problem = emulator_load(path, &functions) { throw TestFailure(String(cString: problem)) }
      change(&functions)
      return try #require(EmulatedDevice(functions: functions, settings: settings))
    }
  #else
    static func bare() throws -> any MTLDevice { try #require(MTLCreateSystemDefaultDevice()) }
    static var haveDevice: Bool { MTLCreateSystemDefaultDevice() != nil }
    static var haveKernels: Bool { MTLCreateSystemDefaultDevice()?.supportsFamily(.apple7) == true }
  #endif

  static func backend() throws -> MetalBackend {
    #if os(Linux)
      try MetalBackend.emulate(try #require(translatedKernels))
    #endif
    return try #require(try MetalBackend.open() as? MetalBackend)
  }
}

struct TestFailure: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

/// A submission as the core passes it to a backend, with a wait.
final class TestSubmission: Submission, @unchecked Sendable {
  let ticket: UInt64
  let ops: [EncodedOp]
  private let done = Gate()
  private var outcome: Failure?

  init(_ ops: [Op], ticket: UInt64 = 1, borrows: Bool = false) {
    self.ticket = ticket
    self.ops = ops.map { EncodedOp($0, name: "anOp", borrows: borrows) }
  }

  func finish(_ failure: Failure?) {
    outcome = failure
    done.open()
  }

  /// Nil if nothing failed.
  func wait() -> Failure? {
    done.wait()
    return outcome
  }
}

extension Backend {
  /// Runs ops as one submission.
  func run(_ ops: Op...) -> Failure? {
    let submission = TestSubmission(ops)
    submit(submission)
    assist(submission)
    return submission.wait()
  }
}

#if os(Linux)
  /// The emulator's own way to make a pipeline, for tests that replace it.
  enum RealLibrary {
    static let create:
      (
        @convention(c) (
          UnsafePointer<CChar>?, UnsafePointer<emu_constant>?, Int, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
        ) -> OpaquePointer?
      )? = {
        var functions = emulator_functions()
        guard let path = Devices.translatedKernels, emulator_load(path, &functions) == nil else { return nil }
        return functions.pipeline_create
      }()
    /// Its text, which is asked for each time that a library is compiled.
    static let source: (@convention(c) () -> UnsafePointer<CChar>?)? = {
      var functions = emulator_functions()
      guard let path = Devices.translatedKernels, emulator_load(path, &functions) == nil else { return nil }
      return functions.source
    }()
  }
#endif
