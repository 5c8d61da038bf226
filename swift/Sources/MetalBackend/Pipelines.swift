import GatedDeltaTypes
import Metal
import ShaderParams
import Synchronization

/// A compiled kernel.
struct Pipeline: @unchecked Sendable {
  let state: any MTLComputePipelineState
  /// Of a threadgroup: its registers may leave a kernel fewer than the device has. Whole simdgroups.
  let maxThreads: Int
}

/// Compiles kernels at their first use, each from a text of its own: the runtime compiler would take seconds for all
/// instantiations, and a program needs a handful.
final class Pipelines: @unchecked Sendable {
  private struct Library: @unchecked Sendable {
    let library: any MTLLibrary
  }
  private struct State {
    var ready: [Kernel: Pipeline] = [:]
    var libraries: [String: Library] = [:]
  }
  private let device: any MTLDevice
  private let state = Mutex(State())

  init(device: any MTLDevice) { self.device = device }

  func pipeline(_ kernel: Kernel) throws(Failure) -> Pipeline {
    if let ready = state.withLock({ $0.ready[kernel] }) { return ready }
    // Compiled outside the lock: two threads may do it twice, neither waits for the other.
    let made = try compile(kernel)
    state.withLock { $0.ready[kernel] = made }
    return made
  }

  private func compile(_ kernel: Kernel) throws(Failure) -> Pipeline {
    let name = kernel.name
    let made: any MTLComputePipelineState
    do {
      let library = try library(of: name)
      let function = try library.makeFunction(name: name, constantValues: Self.values(of: kernel.constants))
      made = try device.makeComputePipelineState(function: function)
    } catch {
      throw Failure(.device, expected: "the kernel \(name) to compile", received: "\(error)")
    }
    guard made.threadExecutionWidth == GDM_SIMD_LANES else {
      throw Failure(
        .device, expected: "simdgroups of \(GDM_SIMD_LANES) threads",
        received: "\(made.threadExecutionWidth) in \(name)")
    }
    return Pipeline(
      state: made, maxThreads: made.maxTotalThreadsPerThreadgroup / GDM_SIMD_LANES * GDM_SIMD_LANES)
  }

  private func library(of name: String) throws -> any MTLLibrary {
    if let known = state.withLock({ $0.libraries[name] }) { return known.library }
    let options = MTLCompileOptions()
    options.languageVersion = .version3_2
    // The promises to the bit: no reassociation, correctly rounded division and roots.
    options.mathMode = .safe
    options.mathFloatingPointFunctions = .precise
    let made = Library(library: try device.makeLibrary(source: Self.source(of: name), options: options))
    state.withLock { $0.libraries[name] = made }
    return made.library
  }

  /// All of the text but the instantiations of other kernels: templates that nothing instantiates cost next to nothing.
  static func source(of name: String) -> String {
    let all = "template [[host_name(\""
    let own = all + name + "\")]]"
    return kernelSource.split(separator: "\n", omittingEmptySubsequences: false)
      .map { line in line.utf8.starts(with: all.utf8) && !line.utf8.starts(with: own.utf8) ? "" : line }
      .joined(separator: "\n")
  }

  private static func values(of constants: Constants) -> MTLFunctionConstantValues {
    let values = MTLFunctionConstantValues()
    for index in Constants.Index.allCases {
      guard var value = constants[index] else { continue }
      if index.isBool {
        var flag = value != 0
        values.setConstantValue(&flag, type: .bool, index: index.rawValue)
      } else {
        values.setConstantValue(&value, type: .uint, index: index.rawValue)
      }
    }
    return values
  }
}
