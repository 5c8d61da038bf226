/// The protocols of the Metal API subset that `MetalBackend` uses. What Apple documents is in Apple's pages; the
/// comments here say only what this emulation adds.

public func MTLCreateSystemDefaultDevice() -> (any MTLDevice)? { EmulatedDevice.open() }

public protocol MTLDevice: AnyObject, Sendable {
  var name: String { get }
  var hasUnifiedMemory: Bool { get }
  var maxBufferLength: Int { get }
  var maxThreadgroupMemoryLength: Int { get }
  var maxThreadsPerThreadgroup: MTLSize { get }
  func supportsFamily(_ gpuFamily: MTLGPUFamily) -> Bool
  func makeCommandQueue() -> (any MTLCommandQueue)?
  func makeBuffer(length: Int, options: MTLResourceOptions) -> (any MTLBuffer)?
  func makeBuffer(
    bytesNoCopy pointer: UnsafeMutableRawPointer, length: Int, options: MTLResourceOptions,
    deallocator: (@Sendable (UnsafeMutableRawPointer, Int) -> Void)?
  ) -> (any MTLBuffer)?
  func makeLibrary(source: String, options: MTLCompileOptions?) throws -> any MTLLibrary
  func makeComputePipelineState(function computeFunction: any MTLFunction) throws -> any MTLComputePipelineState
}

public protocol MTLResource: AnyObject, Sendable {
  var label: String? { get set }
}

public protocol MTLBuffer: MTLResource {
  var length: Int { get }
  func contents() -> UnsafeMutableRawPointer
}

public protocol MTLLibrary: AnyObject, Sendable {
  func makeFunction(name: String, constantValues: MTLFunctionConstantValues) throws -> any MTLFunction
}

public protocol MTLFunction: AnyObject, Sendable {
  var name: String { get }
}

public protocol MTLComputePipelineState: AnyObject, Sendable {
  var maxTotalThreadsPerThreadgroup: Int { get }
  var threadExecutionWidth: Int { get }
  var staticThreadgroupMemoryLength: Int { get }
}

public protocol MTLCommandQueue: AnyObject, Sendable {
  var label: String? { get set }
  func makeCommandBuffer() -> (any MTLCommandBuffer)?
}

public protocol MTLCommandBuffer: AnyObject, Sendable {
  var label: String? { get set }
  var status: MTLCommandBufferStatus { get }
  var error: (any Error)? { get }
  func makeComputeCommandEncoder(dispatchType: MTLDispatchType) -> (any MTLComputeCommandEncoder)?
  func addCompletedHandler(_ block: @escaping MTLCommandBufferHandler)
  func commit()
  func waitUntilCompleted()
}

public protocol MTLCommandEncoder: AnyObject {
  var label: String? { get set }
  func endEncoding()
}

public protocol MTLComputeCommandEncoder: MTLCommandEncoder {
  func setComputePipelineState(_ state: any MTLComputePipelineState)
  func setBytes(_ bytes: UnsafeRawPointer, length: Int, index: Int)
  func setBuffer(_ buffer: (any MTLBuffer)?, offset: Int, index: Int)
  func setThreadgroupMemoryLength(_ length: Int, index: Int)
  func dispatchThreadgroups(_ threadgroupsPerGrid: MTLSize, threadsPerThreadgroup: MTLSize)
  func memoryBarrier(scope: MTLBarrierScope)
}

/// How a library is compiled. The emulation's kernels are compiled beforehand, so it only checks what is asked for.
public final class MTLCompileOptions: @unchecked Sendable {
  public var mathMode: MTLMathMode = .fast
  public var mathFloatingPointFunctions: MTLMathFloatingPointFunctions = .fast
  public var languageVersion: MTLLanguageVersion = .version3_1
  public init() {}
}

/// Apple's `ObjectiveC.autoreleasepool(invoking:)`, which `import Metal` brings along on a Mac. Nothing is autoreleased
/// here.
public func autoreleasepool<Result>(invoking body: () throws -> Result) rethrows -> Result { try body() }
