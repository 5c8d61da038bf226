import GatedDeltaTypes
import Metal
import ShaderParams
import Synchronization

/// A compiled kernel.
struct Pipeline: @unchecked Sendable {
  let state: any MTLComputePipelineState
  /// The limit of a threadgroup: a kernel's registers may allow fewer than the device. A multiple of the simdgroup.
  let maxThreads: Int
}

/// The kernels' library, compiled once, and the pipelines made from it, each at its first use.
final class Pipelines: @unchecked Sendable {
  private struct Library: @unchecked Sendable {
    let library: any MTLLibrary
  }
  private struct State {
    var ready: [Kernel: Pipeline] = [:]
  }
  private let device: any MTLDevice
  private let state = Mutex(State())
  /// Held while the library is compiled, so that it is compiled once.
  private let library = Mutex<Library?>(nil)

  init(device: any MTLDevice) { self.device = device }

  func pipeline(_ kernel: Kernel) throws(Failure) -> Pipeline {
    if let ready = state.withLock({ $0.ready[kernel] }) { return ready }
    // Compiled outside the lock: two threads may compile the same one, but neither waits for the other.
    let made = try compile(kernel)
    state.withLock { $0.ready[kernel] = made }
    return made
  }

  private func compile(_ kernel: Kernel) throws(Failure) -> Pipeline {
    let name = kernel.name
    let made: any MTLComputePipelineState
    do {
      let function = try compiledLibrary().makeFunction(name: name, constantValues: Self.values(of: kernel.constants))
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

  private func compiledLibrary() throws -> any MTLLibrary {
    try library.withLock { library in
      if let library { return library }
      let options = MTLCompileOptions()
      options.languageVersion = .version3_2
      // The promises to the bit: no reassociation, correctly rounded division and roots.
      options.mathMode = .safe
      options.mathFloatingPointFunctions = .precise
      let made = Library(library: try device.makeLibrary(source: kernelSource, options: options))
      library = made
      return made
    }.library
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
