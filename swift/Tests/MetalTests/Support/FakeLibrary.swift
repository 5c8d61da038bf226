import CEmulator
import Glibc
import Testing

@testable import Metal

/// A translated library without a translator: kernels written here, behind the C interface of `emulator.h`.
///
/// `add`: output[0] = input[0] + params.term, or the fault that params asks for; it takes threadgroup memory.
/// `plain`: the same without threadgroup memory, and with a bool constant 3, which it requires.
/// `wide`: as plain, with 5120 bytes of its own threadgroup memory and at most 256 threads.
enum FakeLibrary {
  struct Params {
    var term: UInt32 = 0
    var faults: UInt32 = 0
  }

  static let source = """
    kernel void add(device const uint* input [[buffer(0)]]) {}
    template [[host_name("plain")]] kernel decltype(f<1>) f<1>;
    template [[host_name("wide")]] kernel decltype(f<2>) f<2>;
    """

  private static let buffers = """
    [{"index": 0, "name": "input", "space": "device", "const": true, "reference": false, "type": "uint", "bytes": 4,
      "align": 4, "optional": null},
     {"index": 1, "name": "output", "space": "device", "const": false, "reference": false, "type": "uint", "bytes": 4,
      "align": 4, "optional": null},
     {"index": 2, "name": "params", "space": "constant", "const": true, "reference": true, "type": "Params", "bytes": 8,
      "align": 4, "optional": null}]
    """
  private static func kernel(_ name: String, _ threadgroups: String) -> String {
    "{\"name\": \"\(name)\", \"buffers\": \(buffers), \"threadgroups\": \(threadgroups), \"constants\": []}"
  }
  private nonisolated(unsafe) static let text = strdup(source)
  /// Never freed: it lives as long as a library.
  private nonisolated(unsafe) static let reflection = strdup(
    "{\"kernels\": ["
      + [
        kernel("add", "[{\"index\": 0, \"name\": \"scratch\", \"type\": \"float\", \"bytes\": 4, \"align\": 4}]"),
        kernel("plain", "[]"), kernel("wide", "[]"),
      ].joined(separator: ", ") + "]}")

  static func functions() -> emulator_functions {
    var functions = emulator_functions()
    functions.reflection = { UnsafePointer(FakeLibrary.reflection) }
    functions.source = { UnsafePointer(FakeLibrary.text) }
    functions.pipeline_create = { kernel, constants, count, error in
      let name = kernel.map { String(cString: $0) } ?? ""
      guard ["add", "plain", "wide"].contains(name) else {
        error?.pointee = strdup("\(name): no such kernel")
        return nil
      }
      if name == "plain" {
        let given = (0..<count).compactMap { constants?[$0] }.first { $0.index == 3 }
        guard let given else {
          error?.pointee = strdup("plain: function constant 3 (flag) is not set")
          return nil
        }
        guard String(cString: given.type) == "bool", given.bytes == 1 else {
          error?.pointee = strdup("plain: function constant 3 (flag) is a bool, not a \(String(cString: given.type))")
          return nil
        }
      }
      // A pipeline is its kernel's name.
      return OpaquePointer(strdup(name))
    }
    functions.pipeline_destroy = { free(UnsafeMutableRawPointer($0)) }
    functions.max_total_threads = { FakeLibrary.name($0) == "wide" ? 256 : 1024 }
    functions.static_threadgroup_bytes = { FakeLibrary.name($0) == "wide" ? 5120 : 0 }
    functions.uses_buffer = { $1 <= 2 ? 1 : 0 }
    functions.writes_buffer = { $1 == 1 ? 1 : 0 }
    functions.dispatch = { FakeLibrary.dispatch($1) }
    functions.string_free = { free($0) }
    return functions
  }

  private static func name(_ pipeline: OpaquePointer?) -> String {
    pipeline.map { String(cString: UnsafePointer<CChar>($0)) } ?? ""
  }

  private static func dispatch(_ info: UnsafePointer<emu_dispatch_info>?) -> UnsafeMutablePointer<CChar>? {
    guard let info, let buffers = info.pointee.buffers else { return strdup("nothing to run") }
    func address(_ index: UInt32) -> UnsafeMutableRawPointer? {
      for i in 0..<Int(info.pointee.buffer_count) where buffers[i].index == index {
        return buffers[i].pointer + Int(buffers[i].offset)
      }
      return nil
    }
    guard let input = address(0), let output = address(1), let params = address(2) else { return strdup("unbound") }
    // Every kernel here reads the shared memory: a fault unless it is the first of those without a barrier between them.
    for i in 0..<Int(info.pointee.buffer_count) where buffers[i].flags & UInt32(EMU_BUFFER_SHARED) != 0 {
      if info.pointee.together.pointee != 0 { return strdup("buffer \(buffers[i].index) is shared") }
    }
    info.pointee.together.pointee = 1
    let given = params.load(as: Params.self)
    if given.faults != 0 { return strdup("kernels.metal:7: a fault") }
    let value = input.load(as: UInt32.self)
    output.storeBytes(of: value &+ given.term, as: UInt32.self)
    return nil
  }
}

/// A device over the fake library, and helpers of tests.
struct Rig {
  let device: EmulatedDevice
  let queue: EmulatedQueue
  let library: any MTLLibrary

  init(_ settings: EmulatedDevice.Settings = .init(), inFlight: Int = 64) throws {
    device = try #require(EmulatedDevice(functions: FakeLibrary.functions(), settings: settings))
    queue = try #require(device.makeCommandQueue(maxCommandBufferCount: inFlight) as? EmulatedQueue)
    library = try device.makeLibrary(source: FakeLibrary.source, options: Self.options())
  }

  static func options() -> MTLCompileOptions {
    let options = MTLCompileOptions()
    options.languageVersion = .version3_2
    options.mathMode = .safe
    options.mathFloatingPointFunctions = .precise
    return options
  }

  func pipeline(_ name: String = "plain") throws -> any MTLComputePipelineState {
    let constants = MTLFunctionConstantValues()
    var flag = true
    constants.setConstantValue(&flag, type: .bool, index: 3)
    return try device.makeComputePipelineState(
      function: library.makeFunction(name: name, constantValues: constants))
  }

  func buffer(_ values: UInt32...) throws -> any MTLBuffer {
    let buffer = try #require(device.makeBuffer(length: 16384))
    for (index, value) in values.enumerated() {
      buffer.contents().storeBytes(of: value, toByteOffset: 4 * index, as: UInt32.self)
    }
    return buffer
  }

  /// The message that the command buffer fails with; nil if it succeeds.
  func run(
    _ type: MTLDispatchType = .concurrent, _ encode: (any MTLComputeCommandEncoder) throws -> Void
  ) throws -> String? {
    let commandBuffer = try #require(queue.makeCommandBuffer())
    let encoder = try #require(commandBuffer.makeComputeCommandEncoder(dispatchType: type))
    try encode(encoder)
    encoder.endEncoding()
    commandBuffer.commit()
    commandBuffer.waitUntilCompleted()
    #expect((commandBuffer.status == .error) == (commandBuffer.error != nil))
    return commandBuffer.error.map { "\($0)" }
  }

  /// A correct dispatch, for tests to break.
  struct Call {
    var pipeline: any MTLComputePipelineState
    var input: (any MTLBuffer)?
    var inputOffset = 0
    var output: (any MTLBuffer)?
    var outputOffset = 0
    var params = FakeLibrary.Params()
    var paramBytes = 8
    var groups = MTLSize(width: 1, height: 1, depth: 1)
    var threads = MTLSize(width: 32, height: 1, depth: 1)

    func encode(_ encoder: any MTLComputeCommandEncoder) {
      encoder.setComputePipelineState(pipeline)
      encoder.setBuffer(input, offset: inputOffset, index: 0)
      encoder.setBuffer(output, offset: outputOffset, index: 1)
      withUnsafeBytes(of: params) { encoder.setBytes($0.baseAddress!, length: paramBytes, index: 2) }
      encoder.dispatchThreadgroups(groups, threadsPerThreadgroup: threads)
    }
  }

  func call(_ name: String = "plain") throws -> Call {
    Call(pipeline: try pipeline(name), input: try buffer(40), output: try buffer(0), params: .init(term: 2))
  }

  func run(_ call: Call) throws -> String? { try run { call.encode($0) } }
}

extension MTLBuffer {
  var first: UInt32 { contents().load(as: UInt32.self) }
}
