import GatedDeltaTypes
import Metal
import ShaderParams
import Synchronization

#if canImport(Darwin)
  import Dispatch
#endif

/// A compiled kernel.
struct Pipeline: @unchecked Sendable {
  let state: any MTLComputePipelineState
  /// The limit of a threadgroup: a kernel's registers may allow fewer than the device. A multiple of the simdgroup.
  let maxThreads: Int
  /// Its own threadgroup memory, without the host's.
  let threadgroupBytes: Int
}

/// The pipelines, each made at its first use: from the library that the build has compiled, if there is one, or from the
/// shaders' text, each file of which is a separate library, compiled when one of its kernels is needed.
final class Pipelines: Sendable {
  /// Immutable, whether or not Apple's declaration says that it may be passed between threads.
  private struct Bytes: @unchecked Sendable {
    let data: DispatchData
  }
  private let device: any MTLDevice
  private let ready = Mutex<[Kernel: Pipeline]>([:])
  private let compiled: OnceLibrary?
  /// By their files.
  private let texts: [String: OnceLibrary]

  /// - Parameter metallib: the compiled library; nil if there is none.
  init(device: any MTLDevice, metallib: UnsafeRawBufferPointer? = builtMetallib()) {
    self.device = device
    let bytes = metallib.map { Bytes(data: DispatchData(bytes: $0)) }
    compiled = bytes.map { bytes in OnceLibrary { try device.makeLibrary(data: bytes.data) } }
    texts = shaderFiles.mapValues { pieces in OnceLibrary { try Self.compile(pieces, device) } }
  }

  /// The kernels that have pipelines.
  var kernels: [Kernel] { ready.withLock { Array($0.keys) } }

  func pipeline(_ kernel: Kernel) throws(Failure) -> Pipeline {
    if let ready = ready.withLock({ $0[kernel] }) { return ready }
    // Compiled outside the lock: two threads may compile the same one, but neither waits for the other.
    let made = try compile(kernel)
    ready.withLock { $0[kernel] = made }
    return made
  }

  private func compile(_ kernel: Kernel) throws(Failure) -> Pipeline {
    let name = kernel.name
    let made: any MTLComputePipelineState
    do {
      // A system that does not take the compiled library gets the text.
      if let compiled, let whole = try? make(name, kernel.constants, compiled) {
        made = whole
      } else if let text = texts[kernel.family.file] {
        made = try make(name, kernel.constants, text)
      } else {
        throw Failure(.internal, expected: "the text of \(kernel.family.file).metal", received: "none")
      }
    } catch {
      throw Failure(.device, expected: "the kernel \(name) to compile", received: "\(error)")
    }
    guard made.threadExecutionWidth == GDM_SIMD_LANES else {
      throw Failure(
        .device, expected: "simdgroups of \(GDM_SIMD_LANES) threads",
        received: "\(made.threadExecutionWidth) in \(name)")
    }
    return Pipeline(
      state: made, maxThreads: made.maxTotalThreadsPerThreadgroup / GDM_SIMD_LANES * GDM_SIMD_LANES,
      threadgroupBytes: made.staticThreadgroupMemoryLength)
  }

  private func make(_ name: String, _ constants: Constants, _ from: OnceLibrary) throws -> any MTLComputePipelineState {
    let function = try from.library.makeFunction(name: name, constantValues: Self.values(of: constants))
    return try device.makeComputePipelineState(function: function)
  }

  private static func compile(_ pieces: [Int], _ device: any MTLDevice) throws -> any MTLLibrary {
    let options = MTLCompileOptions()
    options.languageVersion = .version3_2
    // For exact bits: no reassociation, correctly rounded division and roots.
    options.mathMode = .safe
    options.mathFloatingPointFunctions = .precise
    return try device.makeLibrary(source: pieces.map { shaderPieces[$0] }.joined(), options: options)
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
