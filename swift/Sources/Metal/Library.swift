import CEmulator

/// The translated kernels, which were made from the text that `EmulatedDevice.makeLibrary` has compared.
final class EmulatedLibrary: MTLLibrary {
  let device: EmulatedDevice
  /// The files whose kernels the library has; nil for all.
  private let files: Set<String>?

  init(device: EmulatedDevice, files: Set<String>?) {
    self.device = device
    self.files = files
  }

  func makeFunction(name: String, constantValues: MTLFunctionConstantValues) throws -> any MTLFunction {
    guard let kernel = device.kernels[name], files?.contains(kernel.file) != false else { throw MetalEmulationError("\(name): the library has no such kernel") }
    return try EmulatedFunction(device: device, name: name, constants: constantValues)
  }
}

/// A kernel with its function constants; the emulator's pipeline, since nothing else goes into one.
final class EmulatedFunction: MTLFunction, @unchecked Sendable {
  let name: String
  let device: EmulatedDevice
  let handle: OpaquePointer

  init(device: EmulatedDevice, name: String, constants: MTLFunctionConstantValues) throws {
    var bytes: [UInt8] = []
    var table: [emu_constant] = []
    var starts: [Int] = []
    for (index, value) in constants.values.sorted(by: { $0.key < $1.key }) {
      guard let number = UInt32(exactly: index), number <= 65535 else {
        throw MetalEmulationError("\(name): a function constant's index is \(index), the last is 65535")
      }
      // Each value on a 16-byte boundary, as its type may require.
      while bytes.count % 16 != 0 { bytes.append(0) }
      starts.append(bytes.count)
      bytes += value.bytes
      table.append(
        emu_constant(
          name: nil, index: number, bytes: UInt32(value.bytes.count),
          type: UnsafeRawPointer(value.type.shaderName.utf8Start).assumingMemoryBound(to: CChar.self), value: nil))
    }

    var problem: UnsafeMutablePointer<CChar>?
    let handle = bytes.withUnsafeBytes { memory in
      for i in table.indices { table[i].value = memory.baseAddress.map { $0 + starts[i] } }
      return device.functions.pipeline_create(name, table, table.count, &problem)
    }
    guard let handle else {
      throw MetalEmulationError(device.take(problem) ?? "\(name): no such kernel")
    }
    self.name = name
    self.device = device
    self.handle = handle
  }

  deinit { device.functions.pipeline_destroy(handle) }
}

final class EmulatedPipeline: MTLComputePipelineState, @unchecked Sendable {
  let function: EmulatedFunction
  let reflection: KernelReflection?
  let maxTotalThreadsPerThreadgroup: Int
  let staticThreadgroupMemoryLength: Int
  var threadExecutionWidth: Int { 32 }

  init(function: EmulatedFunction) {
    let functions = function.device.functions
    self.function = function
    reflection = function.device.kernels[function.name]
    maxTotalThreadsPerThreadgroup = min(
      Int(functions.max_total_threads(function.handle)), function.device.settings.maxThreads(of: function.name))
    staticThreadgroupMemoryLength = Int(functions.static_threadgroup_bytes(function.handle))
  }

  func uses(_ index: Int) -> Bool { function.device.functions.uses_buffer(function.handle, UInt32(index)) != 0 }
  func writes(_ index: Int) -> Bool { function.device.functions.writes_buffer(function.handle, UInt32(index)) != 0 }

  func describe(_ index: Int) -> String { reflection?.describe(buffer: index) ?? "buffer \(index)" }
}
