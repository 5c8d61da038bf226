import CEmulator
import Glibc

/// An emulated GPU: kernels run on the CPU (see `emulator.h`), limits are those of an M1 (Apple7).
final class EmulatedDevice: MTLDevice, @unchecked Sendable {
  /// How hard the emulation tries to show a mistake, and how far its GPU is from the largest.
  struct Settings: Sendable {
    /// The most threads of a threadgroup, by the start of a kernel's name: registers may limit a kernel to fewer than
    /// the device's.
    var maxThreads: [String: Int] = [:]
    /// Microseconds before each command buffer starts, so that reading results too early shows.
    var delay: UInt32 = 0
    /// The GPU's cores; nil: as many as the backend assumes if it does not know them.
    var cores: Int?
    var order = DispatchOrder.forward
    /// The file for command buffers' calls and the host's work for them; empty for none.
    var counts = ""
    /// Memory accesses per second, from which the GPU's times follow; nil: the times of the machine's clock.
    var speed: Double?
    /// Seconds after which the system ends a command buffer, and ignores those that follow on its queue. Only with a speed.
    var patience = Double.infinity
    /// Bytes that the GPU may have in use at a time, as it reports.
    var workingSet: UInt64 = 4 << 30

    init() {}

    func maxThreads(of kernel: String) -> Int {
      maxThreads.filter { kernel.hasPrefix($0.key) }.map(\.value).min() ?? 1024
    }
  }

  let functions: emulator_functions
  let kernels: [String: KernelReflection]
  let settings: Settings
  let counts: CountsFile?

  var name: String { "Apple M1 (emulated)" }
  var maxBufferLength: Int { 4 << 30 }
  var recommendedMaxWorkingSetSize: UInt64 { settings.workingSet }
  var maxThreadgroupMemoryLength: Int { 32768 }

  init?(functions: emulator_functions, settings: Settings) {
    guard let text = functions.reflection(), let kernels = KernelReflection.known[String(cString: text)] else {
      return nil
    }
    self.functions = functions
    self.kernels = kernels
    self.settings = settings
    counts = settings.counts.isEmpty ? nil : CountsFile(path: settings.counts)
  }

  func supportsFamily(_ gpuFamily: MTLGPUFamily) -> Bool { gpuFamily == .apple7 }

  func makeCommandQueue(maxCommandBufferCount: Int) -> (any MTLCommandQueue)? {
    maxCommandBufferCount > 0 ? EmulatedQueue(device: self, limit: maxCommandBufferCount) : nil
  }

  func makeBuffer(length: Int, options: MTLResourceOptions) -> (any MTLBuffer)? {
    EmulatedBuffer(device: self, length: length)
  }

  func makeBuffer(
    bytesNoCopy pointer: UnsafeMutableRawPointer, length: Int, options: MTLResourceOptions,
    deallocator: (@Sendable (UnsafeMutableRawPointer, Int) -> Void)?
  ) -> (any MTLBuffer)? {
    EmulatedBuffer(device: self, borrowing: pointer, length: length, deallocator: deallocator)
  }

  func makeFence() -> (any MTLFence)? { EmulatedFence(device: self) }

  func makeResidencySet(descriptor desc: MTLResidencySetDescriptor) throws -> any MTLResidencySet {
    EmulatedResidencySet()
  }

  func makeLibrary(source: String, options: MTLCompileOptions?) throws -> any MTLLibrary {
    let options = options ?? MTLCompileOptions()
    guard options.mathMode == .safe else {
      throw MetalEmulationError("the kernels promise their bits under mathMode .safe, not .\(options.mathMode)")
    }
    guard options.mathFloatingPointFunctions == .precise else {
      throw MetalEmulationError("the kernels promise their bits with precise functions")
    }
    guard options.languageVersion == .version3_2 else {
      throw MetalEmulationError("the kernels are written in MSL 3.2, not .\(options.languageVersion)")
    }
    // Its kernels replace those that Apple would compile from this text, so they must have been made from it.
    guard let known = functions.source() else { return EmulatedLibrary(device: self, files: nil) }
    let given = ShaderText.known[source]
    if let place = given.difference(from: ShaderText.known[String(cString: known)]) {
      throw MetalEmulationError(
        "the text differs from the one that the emulated kernels were made from, first in \(place): "
          + "`npm run emulator` makes them anew")
    }
    return EmulatedLibrary(device: self, files: given.files)
  }

  /// Stands in for a metallib: `MTLB`, and the text that the kernels were made from.
  static func metallib(of source: String) -> [UInt8] { Array("MTLB".utf8) + Array(source.utf8) }

  func makeLibrary(data: DispatchData) throws -> any MTLLibrary {
    guard let text = functions.source(), data.bytes == Self.metallib(of: String(cString: text)) else {
      throw MetalEmulationError("not a library of these kernels")
    }
    return EmulatedLibrary(device: self, files: nil)
  }

  func makeComputePipelineState(function computeFunction: any MTLFunction) throws -> any MTLComputePipelineState {
    guard let function = computeFunction as? EmulatedFunction, function.device === self else {
      throw MetalEmulationError("a function of another device")
    }
    return EmulatedPipeline(function: function)
  }

  /// The emulator's message, freed.
  func take(_ message: UnsafeMutablePointer<CChar>?) -> String? {
    guard let message else { return nil }
    defer { functions.string_free(message) }
    return String(cString: message)
  }
}
