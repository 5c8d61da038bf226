import GatedDeltaTypes
import Metal
import ShaderParams

/// A buffer argument of a kernel, in the order of its `[[buffer(n)]]`.
enum Argument {
  case reads(Region)
  /// Also what is read and written in place.
  case writes(Region)
  /// Declared by the kernel and switched off by an option. Every declared buffer must be bound, so it gets a piece of the
  /// sink, which nothing reads or writes.
  case absent
}

/// One command buffer being encoded.
struct Pass {
  let device: MetalBackend
  let encoder: any MTLComputeCommandEncoder
  var arena: Arena
  private var hazards = Hazards()

  init(device: MetalBackend, encoder: any MTLComputeCommandEncoder) {
    self.device = device
    self.encoder = encoder
    arena = Arena(pool: device.arenas)
  }

  /// Arguments are bound from index 0 on, `params` after the last.
  mutating func dispatch<Params>(
    _ kernel: Kernel, _ arguments: [Argument], _ params: Params, groups: (Int, Int, Int), threads: Int,
    threadgroupBytes: Int = 0
  ) throws(Failure) {
    guard groups.0 > 0, groups.1 > 0, groups.2 > 0 else { return }
    let pipeline = try device.pipelines.pipeline(kernel)
    if hazards.block(arguments) {
      encoder.memoryBarrier(scope: .buffers)
      hazards.reset()
    }
    hazards.add(arguments)

    encoder.setComputePipelineState(pipeline)
    for (index, argument) in arguments.enumerated() {
      switch argument {
      case .reads(let region) where region.byteCount > 0, .writes(let region) where region.byteCount > 0:
        encoder.setBuffer(region.buffer, offset: region.offset, index: index)
      default:
        // An empty tensor may lie at its buffer's very end, where no binding can.
        encoder.setBuffer(device.sink, offset: index * 256, index: index)
      }
    }
    withUnsafeBytes(of: params) { bytes in
      if let base = bytes.baseAddress { encoder.setBytes(base, length: bytes.count, index: arguments.count) }
    }
    if threadgroupBytes > 0 {
      encoder.setThreadgroupMemoryLength((threadgroupBytes + 15) / 16 * 16, index: 0)
    }
    encoder.dispatchThreadgroups(
      MTLSize(width: groups.0, height: groups.1, depth: groups.2),
      threadsPerThreadgroup: MTLSize(width: threads, height: 1, depth: 1))
  }

  mutating func encode(_ op: Op) throws(Failure) {
    switch op {
    case .gatedDelta(let op, let sequences): try encode(op, sequences)
    case .causalConv1d(let op, let sequences): try encode(op, sequences)
    case .gatedRMSNorm(let op): try encode(op)
    case .gatedDeltaStep(let op, let sequences): try encode(op, sequences)
    case .linear(let op): try encode(op)
    case .copySlots(let op, let sequences): try encode(op, sequences)
    }
  }
}

/// Rounded up.
func ceilDiv(_ a: Int, _ b: Int) -> Int { (a + b - 1) / b }

extension UInt32 {
  /// A size or stride of a validated tensor. Those that a kernel uses fit 32 bits; one that does not belongs to a tensor
  /// of at most one row, where it is multiplied by 0.
  init(element value: Int) { self = UInt32(truncatingIfNeeded: value) }
}
