import GatedDeltaTypes
import Metal
import Synchronization

/// Compiles the kernels' text once and every pipeline at its first use.
final class Pipelines: Sendable {
  private struct State: @unchecked Sendable {
    var ready: [Kernel: any MTLComputePipelineState] = [:]
  }
  private let device: any MTLDevice
  private let library: any MTLLibrary
  private let state = Mutex(State())

  init(device: any MTLDevice) throws(Failure) {
    let options = MTLCompileOptions()
    options.languageVersion = .version3_2
    // The promises to the bit: no reassociation, no contraction, correctly rounded division and roots.
    options.mathMode = .safe
    options.mathFloatingPointFunctions = .precise
    self.device = device
    do {
      library = try device.makeLibrary(source: kernelSource, options: options)
    } catch {
      throw Failure(.device, expected: "the kernels to compile", received: "\(error)")
    }
  }

  func pipeline(_ kernel: Kernel) throws(Failure) -> any MTLComputePipelineState {
    if let ready = state.withLock({ $0.ready[kernel] }) { return ready }
    // Compiled outside the lock: two threads may do it twice, neither waits for the other.
    let made = try compile(kernel)
    state.withLock { $0.ready[kernel] = made }
    return made
  }

  private func compile(_ kernel: Kernel) throws(Failure) -> any MTLComputePipelineState {
    let values = MTLFunctionConstantValues()
    for index in Constants.Index.allCases {
      guard var value = kernel.constants[index] else { continue }
      if index.isBool {
        var flag = value != 0
        values.setConstantValue(&flag, type: .bool, index: index.rawValue)
      } else {
        values.setConstantValue(&value, type: .uint, index: index.rawValue)
      }
    }
    let pipeline: any MTLComputePipelineState
    do {
      let function = try library.makeFunction(name: kernel.name, constantValues: values)
      pipeline = try device.makeComputePipelineState(function: function)
    } catch {
      throw Failure(.device, expected: "the kernel \(kernel.name) to compile", received: "\(error)")
    }
    guard pipeline.threadExecutionWidth == 32 else {
      throw Failure(
        .device, expected: "simdgroups of 32 threads", received: "\(pipeline.threadExecutionWidth) in \(kernel.name)")
    }
    return pipeline
  }
}
