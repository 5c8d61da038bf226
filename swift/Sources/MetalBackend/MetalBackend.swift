import GatedDeltaTypes
import Metal

/// Runs ops as Metal pipelines over unified memory. A submission is one command buffer; its dispatches may overlap, with
/// barriers only where one needs another's result.
public final class MetalBackend: Backend, @unchecked Sendable {
  public let description: DeviceDescription
  let pipelines: Pipelines
  let arenas: ArenaPool
  /// What arguments that an option switches off are bound to: 256 bytes each, so that no two overlap.
  let sink: any MTLBuffer
  private let device: any MTLDevice
  private let queue: any MTLCommandQueue

  public static func open() throws(Failure) -> any Backend {
    let opened: Result<MetalBackend, Failure> = autoreleasepool {
      do throws(Failure) { return .success(try MetalBackend()) } catch { return .failure(error) }
    }
    return try opened.get()
  }

  private init() throws(Failure) {
    guard let device = MTLCreateSystemDefaultDevice() else {
      throw Failure(.device, argument: "backend", expected: "a Metal device", received: noDeviceReason())
    }
    guard device.supportsFamily(.apple7) else {
      throw Failure(
        .device, argument: "backend", expected: "an Apple M1 or later (GPU family Apple7)", received: device.name)
    }
    guard let queue = device.makeCommandQueue(),
      let sink = device.makeBuffer(length: 16384, options: .storageModeShared)
    else {
      throw Failure(.device, argument: "backend", expected: "a command queue", received: "none from \(device.name)")
    }
    self.device = device
    self.queue = queue
    self.sink = sink
    arenas = ArenaPool(device: device)
    pipelines = try Pipelines(device: device)
    description = DeviceDescription(
      backend: .metal, name: device.name, isa: "", threads: 0, emulated: Self.isEmulated)
  }

  public func allocate(byteCount: Int) throws(Failure) -> Memory {
    let length = max(1, ceilDiv(byteCount, 16384)) * 16384
    guard length <= device.maxBufferLength,
      let buffer = autoreleasepool(invoking: { device.makeBuffer(length: length, options: .storageModeShared) })
    else {
      throw Failure(.outOfMemory, argument: "bytes", expected: "memory to be had", received: "\(byteCount) bytes")
    }
    return MetalMemory(buffer, byteCount: byteCount, isWrapped: false)
  }

  public func wrap(pointer: UnsafeMutableRawPointer, byteCount: Int) throws(Failure) -> Memory {
    guard Int(bitPattern: pointer) % 16384 == 0, byteCount % 16384 == 0, byteCount > 0,
      let buffer = autoreleasepool(invoking: {
        device.makeBuffer(bytesNoCopy: pointer, length: byteCount, options: .storageModeShared, deallocator: nil)
      })
    else {
      throw Failure(
        .invalidArgument, argument: "pointer", expected: "an address and a length that are multiples of 16384",
        received: "address \(Int(bitPattern: pointer) % 16384) over a page, \(byteCount) bytes")
    }
    return MetalMemory(buffer, byteCount: byteCount, isWrapped: true)
  }

  public func check(_ op: Op) throws(Failure) {}

  public func submit(_ submission: any Submission) {
    autoreleasepool {
      guard let commandBuffer = queue.makeCommandBuffer() else {
        return submission.finish(Failure(.device, expected: "a command buffer", received: "none"))
      }
      // A submission that cannot be encoded is committed all the same, empty: its failure comes in its turn.
      let encoded = encode(submission, commandBuffer)
      let arenas = self.arenas
      commandBuffer.addCompletedHandler { commandBuffer in
        autoreleasepool {
          arenas.giveBack(encoded.scratch)
          submission.finish(encoded.failure ?? commandBuffer.failure)
        }
      }
      commandBuffer.commit()
    }
  }

  private struct Encoded: @unchecked Sendable {
    var scratch: [any MTLBuffer] = []
    var failure: Failure?
  }

  private func encode(_ submission: any Submission, _ commandBuffer: any MTLCommandBuffer) -> Encoded {
    guard let encoder = commandBuffer.makeComputeCommandEncoder(dispatchType: .concurrent) else {
      return Encoded(failure: Failure(.device, expected: "a compute encoder", received: "none"))
    }
    var pass = Pass(device: self, encoder: encoder)
    var failure: Failure?
    do throws(Failure) {
      for op in submission.ops { try pass.encode(op) }
    } catch {
      failure = error
    }
    encoder.endEncoding()
    return Encoded(scratch: pass.arena.buffers, failure: failure)
  }

  /// The GPU does the work: a waiting thread has nothing to help with.
  public func assist(_ submission: any Submission) {}

  public func close() {}
}

extension MTLCommandBuffer {
  /// What the GPU reported, nil where all went well.
  var failure: Failure? {
    guard status == .error else { return nil }
    return Failure(
      .device, expected: "the GPU to finish", received: error.map { "\($0)" } ?? "an error without a description")
  }
}
