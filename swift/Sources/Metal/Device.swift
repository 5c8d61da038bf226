import CEmulator
import Glibc

/// What went wrong in the emulation, where Apple's Metal would have asserted, returned an `NSError` or faulted.
public struct MetalEmulationError: Error, Sendable, CustomStringConvertible {
  public var description: String
  init(_ description: String) { self.description = description }
}

/// The GPU that is not there: kernels run on the CPU (see `emulator.h`), limits are those of an M1 (Apple7).
final class EmulatedDevice: MTLDevice, @unchecked Sendable {
  let functions: emulator_functions

  var name: String { "Apple M1 (emulated)" }
  var hasUnifiedMemory: Bool { true }
  var maxBufferLength: Int { 4 << 30 }
  var maxThreadgroupMemoryLength: Int { 32768 }
  var maxThreadsPerThreadgroup: MTLSize { MTLSize(width: 1024, height: 1024, depth: 1024) }

  private init(functions: emulator_functions) { self.functions = functions }

  static func open() -> EmulatedDevice? {
    switch load() {
    case .success(let device): device
    case .failure: nil
    }
  }

  static func load() -> Result<EmulatedDevice, MetalEmulationError> {
    guard let path = emulator_find() else {
      return .failure(MetalEmulationError("the emulated shader library has not been built"))
    }
    var functions = emulator_functions()
    if let problem = emulator_load(path, &functions) {
      return .failure(MetalEmulationError(String(cString: problem)))
    }
    return .success(EmulatedDevice(functions: functions))
  }

  func supportsFamily(_ gpuFamily: MTLGPUFamily) -> Bool { gpuFamily.rawValue <= MTLGPUFamily.apple7.rawValue }

  func makeCommandQueue() -> (any MTLCommandQueue)? { EmulatedQueue(device: self) }

  func makeBuffer(length: Int, options: MTLResourceOptions) -> (any MTLBuffer)? {
    EmulatedBuffer(length: length, limit: maxBufferLength)
  }

  func makeBuffer(
    bytesNoCopy pointer: UnsafeMutableRawPointer, length: Int, options: MTLResourceOptions,
    deallocator: (@Sendable (UnsafeMutableRawPointer, Int) -> Void)?
  ) -> (any MTLBuffer)? {
    EmulatedBuffer(borrowing: pointer, length: length, limit: maxBufferLength, deallocator: deallocator)
  }

  func makeLibrary(source: String, options: MTLCompileOptions?) throws -> any MTLLibrary {
    let options = options ?? MTLCompileOptions()
    guard options.mathMode == .safe else {
      throw MetalEmulationError("the kernels promise their bits under mathMode .safe, not \(options.mathMode)")
    }
    guard options.mathFloatingPointFunctions == .precise else {
      throw MetalEmulationError("the kernels promise their bits with precise functions")
    }
    guard options.languageVersion == .version3_2 else {
      throw MetalEmulationError("the kernels are written in MSL 3.2, not \(options.languageVersion)")
    }
    return EmulatedLibrary(device: self)
  }

  func makeComputePipelineState(function computeFunction: any MTLFunction) throws -> any MTLComputePipelineState {
    guard let function = computeFunction as? EmulatedFunction else {
      throw MetalEmulationError("\(computeFunction.name) is not a function of this device")
    }
    return EmulatedPipeline(function: function)
  }
}

/// Why `MTLCreateSystemDefaultDevice()` gives nothing here; nil where it gives a device.
public func emulationProblem() -> String? {
  switch EmulatedDevice.load() {
  case .success: nil
  case .failure(let error): error.description
  }
}
