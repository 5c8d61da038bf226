/// The protocols of the Metal API subset that `MetalBackend` uses. What Apple documents is on Apple's pages; the
/// comments here say only what this emulation adds. Which of them are Sendable is Apple's choice too: code that
/// compiles here passes objects between threads as it may there.

public func MTLCreateSystemDefaultDevice() -> (any MTLDevice)? {
  switch DefaultDevice.get() {
  case .success(let device): device
  case .failure: nil
  }
}

public protocol MTLDevice: NSObjectProtocol, Sendable {
  var name: String { get }
  var maxBufferLength: Int { get }
  var recommendedMaxWorkingSetSize: UInt64 { get }
  func supportsFamily(_ gpuFamily: MTLGPUFamily) -> Bool
  func makeCommandQueue(maxCommandBufferCount: Int) -> (any MTLCommandQueue)?
  func makeBuffer(length: Int, options: MTLResourceOptions) -> (any MTLBuffer)?
  func makeBuffer(
    bytesNoCopy pointer: UnsafeMutableRawPointer, length: Int, options: MTLResourceOptions,
    deallocator: (@Sendable (UnsafeMutableRawPointer, Int) -> Void)?
  ) -> (any MTLBuffer)?
  func makeFence() -> (any MTLFence)?
  func makeResidencySet(descriptor desc: MTLResidencySetDescriptor) throws -> any MTLResidencySet
  func makeLibrary(source: String, options: MTLCompileOptions?) throws -> any MTLLibrary
  func makeLibrary(data: DispatchData) throws -> any MTLLibrary
  func makeComputePipelineState(function computeFunction: any MTLFunction) throws -> any MTLComputePipelineState
}

/// Apple's default arguments, which a protocol's own requirements cannot have.
extension MTLDevice {
  public func makeBuffer(length: Int) -> (any MTLBuffer)? { makeBuffer(length: length, options: []) }
  public func makeBuffer(bytesNoCopy pointer: UnsafeMutableRawPointer, length: Int) -> (any MTLBuffer)? {
    makeBuffer(bytesNoCopy: pointer, length: length, options: [], deallocator: nil)
  }
  public func makeBuffer(
    bytesNoCopy pointer: UnsafeMutableRawPointer, length: Int, options: MTLResourceOptions
  ) -> (any MTLBuffer)? {
    makeBuffer(bytesNoCopy: pointer, length: length, options: options, deallocator: nil)
  }
  public func makeBuffer(
    bytesNoCopy pointer: UnsafeMutableRawPointer, length: Int,
    deallocator: (@Sendable (UnsafeMutableRawPointer, Int) -> Void)?
  ) -> (any MTLBuffer)? {
    makeBuffer(bytesNoCopy: pointer, length: length, options: [], deallocator: deallocator)
  }
}

public protocol MTLAllocation: NSObjectProtocol {}

public protocol MTLResource: MTLAllocation {}

public protocol MTLBuffer: MTLResource {
  var length: Int { get }
  func contents() -> UnsafeMutableRawPointer
}

public protocol MTLFence: NSObjectProtocol, Sendable {}

public protocol MTLResidencySet: NSObjectProtocol {
  func addAllocation(_ allocation: any MTLAllocation)
  func removeAllocation(_ allocation: any MTLAllocation)
  func containsAllocation(_ anAllocation: any MTLAllocation) -> Bool
  func commit()
}

public protocol MTLLibrary: NSObjectProtocol, Sendable {
  func makeFunction(name: String, constantValues: MTLFunctionConstantValues) throws -> any MTLFunction
}

public protocol MTLFunction: NSObjectProtocol, Sendable {}

public protocol MTLComputePipelineState: MTLAllocation, Sendable {
  var maxTotalThreadsPerThreadgroup: Int { get }
  var staticThreadgroupMemoryLength: Int { get }
  var threadExecutionWidth: Int { get }
}

public protocol MTLCommandQueue: NSObjectProtocol, Sendable {
  func makeCommandBuffer() -> (any MTLCommandBuffer)?
  func makeCommandBufferWithUnretainedReferences() -> (any MTLCommandBuffer)?
  func addResidencySet(_ residencySet: any MTLResidencySet)
}

public protocol MTLCommandBuffer: NSObjectProtocol {
  var status: MTLCommandBufferStatus { get }
  var error: (any Error)? { get }
  var gpuStartTime: CFTimeInterval { get }
  var gpuEndTime: CFTimeInterval { get }
  func makeComputeCommandEncoder(dispatchType: MTLDispatchType) -> (any MTLComputeCommandEncoder)?
  func addCompletedHandler(_ block: @escaping MTLCommandBufferHandler)
  func commit()
  func waitUntilCompleted()
}

public protocol MTLCommandEncoder: NSObjectProtocol {
  func endEncoding()
}

public protocol MTLComputeCommandEncoder: MTLCommandEncoder {
  func setComputePipelineState(_ state: any MTLComputePipelineState)
  func setBytes(_ bytes: UnsafeRawPointer, length: Int, index: Int)
  func setBuffer(_ buffer: (any MTLBuffer)?, offset: Int, index: Int)
  func setThreadgroupMemoryLength(_ length: Int, index: Int)
  func dispatchThreadgroups(_ threadgroupsPerGrid: MTLSize, threadsPerThreadgroup: MTLSize)
  func memoryBarrier(scope: MTLBarrierScope)
  func updateFence(_ fence: any MTLFence)
  func waitForFence(_ fence: any MTLFence)
}
