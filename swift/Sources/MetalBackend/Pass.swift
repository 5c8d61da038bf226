import GatedDeltaTypes
import Metal
import ShaderParams

#if canImport(Glibc)
  import Glibc
#else
  import Darwin
#endif

/// A buffer argument of a kernel, in the order of its `[[buffer(n)]]`.
enum Argument {
  case reads(Region)
  /// Includes arguments that are read and written in place.
  case writes(Region)
  /// Declared by the kernel and switched off by an option. Every declared buffer must be bound, so it gets a piece of
  /// the sink, which is neither read nor written.
  case absent
}

extension Argument {
  /// The first elements of a tensor; absent if the op has none.
  static func reads(_ tensor: TensorView?, elements: Int) throws(Failure) -> Argument {
    guard let tensor else { return .absent }
    return .reads(try tensor.region(elements: elements))
  }

  static func writes(_ tensor: TensorView?, elements: Int) throws(Failure) -> Argument {
    guard let tensor else { return .absent }
    return .writes(try tensor.region(elements: elements))
  }

  /// Rows of `width` elements, `heads` per token.
  static func reads(_ tensor: TensorView, tokens: Int, heads: Int = 1, width: Int) throws(Failure) -> Argument {
    .reads(try tensor.region(tokens: tokens, heads: heads, width: width))
  }

  static func writes(_ tensor: TensorView, tokens: Int, heads: Int = 1, width: Int) throws(Failure) -> Argument {
    .writes(try tensor.region(tokens: tokens, heads: heads, width: width))
  }
}

/// A constant that a kernel takes in addition to its parameters.
enum MoreConstants {
  /// The kernel declares none.
  case none
  /// Declared and switched off by an option.
  case absent
  case batch(GDMBatch)
  case part(GDMPart)
  case experts(GDMExperts)
}

/// The number of threads of a threadgroup.
enum Threads {
  /// The number that the kernel is written for.
  case exactly(Int)
  /// As many as the pipeline allows: the kernel's bits do not depend on the number.
  case upTo(Int)
}

/// The argument that a pass last bound to an index. It stays bound, so it need not be set again.
struct Bound {
  var buffer: ObjectIdentifier?
  var offset = 0
  /// The length of a constant; 0 for a buffer, or for a constant that is not kept.
  var byteCount = 0
}

/// Lists that a pass fills. A backend reuses them from pass to pass, so that none of them is allocated again.
struct PassLists {
  var hazards = Hazards()
  /// The binding of every index.
  var bound: [Bound] = []
  /// The constants among them, `constantBytes` for each index.
  var constants: [UInt8] = []
  static let constantBytes = 256
  /// Arguments of one dispatch that are collected from several places.
  var arguments: [Argument] = []

  mutating func reset() {
    hazards.reset()
    if bound.isEmpty {
      bound = [Bound](repeating: Bound(), count: 31)
      constants = [UInt8](repeating: 0, count: 31 * Self.constantBytes)
    }
    for index in bound.indices { bound[index] = Bound() }
    arguments.removeAll(keepingCapacity: true)
  }
}

/// One command buffer being encoded. Without an encoder it is a rehearsal: everything that can fail does so, pipelines
/// are compiled, and nothing is dispatched.
struct Pass {
  let device: MetalBackend
  private(set) var encoder: (any MTLComputeCommandEncoder)?
  var arena: Arena
  var tables = LastTable()
  private(set) var lists: PassLists
  /// Ids to be checked when the submission has completed.
  var checks: [IndexCheck] = []
  /// The choices of forms that ops have met, if they are collected.
  var choices: Set<FormChoice>?
  /// The form that a trial takes, or does not.
  var tried: (form: Form, many: Bool)?
  private var pipeline: ObjectIdentifier?
  /// The length last set for `[[threadgroup(0)]]`: it stays set for the kernels that follow.
  private var threadgroupBytes = 0

  init(
    device: MetalBackend, encoder: (any MTLComputeCommandEncoder)?, arena: Arena, lists: PassLists = PassLists()
  ) {
    self.device = device
    self.encoder = encoder
    self.arena = arena
    self.lists = lists
    self.lists.reset()
  }

  /// Continues in another command buffer, which has no bindings yet.
  mutating func begin(_ encoder: any MTLComputeCommandEncoder) {
    self.encoder = encoder
    pipeline = nil
    threadgroupBytes = 0
    lists.reset()
  }

  /// `lists.arguments`, emptied, for the caller to fill and return.
  mutating func takeArguments() -> [Argument] {
    var taken: [Argument] = []
    swap(&taken, &lists.arguments)
    return taken
  }

  mutating func keepArguments(_ list: inout [Argument]) {
    list.removeAll(keepingCapacity: true)
    swap(&list, &lists.arguments)
  }

  /// Arguments are bound from index 0 on, `params` after the last one, and the other constant of the dispatch after
  /// that.
  mutating func dispatch<Params>(
    _ kernel: Kernel, _ arguments: [Argument], _ params: Params, _ more: MoreConstants = .none,
    groups: (Int, Int, Int), threads: Threads, threadgroupBytes: Int = 0
  ) throws(Failure) {
    guard groups.0 > 0, groups.1 > 0, groups.2 > 0 else { return }
    let pipeline = try device.pipelines.pipeline(kernel)
    let threads = try pipeline.threads(threads, kernel)
    guard let encoder else { return }
    if lists.hazards.block(arguments) {
      encoder.memoryBarrier(scope: .buffers)
      lists.hazards.reset()
    }
    lists.hazards.add(arguments)

    let identity = ObjectIdentifier(pipeline.state)
    if self.pipeline != identity {
      encoder.setComputePipelineState(pipeline.state)
      self.pipeline = identity
    }
    for index in arguments.indices { bind(arguments[index], index, encoder) }
    setConstant(params, arguments.count, encoder)
    switch more {
    case .none: break
    case .absent: bind(.absent, arguments.count + 1, encoder)
    case .batch(let batch): setConstant(batch, arguments.count + 1, encoder)
    case .part(let part): setConstant(part, arguments.count + 1, encoder)
    case .experts(let experts): setConstant(experts, arguments.count + 1, encoder)
    }
    setThreadgroupMemory(threadgroupBytes, encoder)
    encoder.dispatchThreadgroups(
      MTLSize(width: groups.0, height: groups.1, depth: groups.2),
      threadsPerThreadgroup: MTLSize(width: threads, height: 1, depth: 1))
  }

  /// Layers of one shape have equal constants, which are not set again.
  private mutating func setConstant<Value>(_ value: Value, _ index: Int, _ encoder: any MTLComputeCommandEncoder) {
    withUnsafeBytes(of: value) { bytes in
      guard let base = bytes.baseAddress else { return }
      let isKept = bytes.count <= PassLists.constantBytes
      let isSet = lists.constants.withUnsafeMutableBytes { kept in
        guard isKept, let place = kept.baseAddress.map({ $0 + index * PassLists.constantBytes }) else { return false }
        if lists.bound[index].byteCount == bytes.count, memcmp(place, base, bytes.count) == 0 { return true }
        place.copyMemory(from: base, byteCount: bytes.count)
        return false
      }
      if isSet { return }
      encoder.setBytes(base, length: bytes.count, index: index)
      lists.bound[index] = Bound(byteCount: isKept ? bytes.count : 0)
    }
  }

  private mutating func bind(_ argument: Argument, _ index: Int, _ encoder: any MTLComputeCommandEncoder) {
    switch argument {
    // An empty tensor may be at the very end of its buffer, where nothing can be bound.
    case .reads(let region) where !region.isEmpty, .writes(let region) where !region.isEmpty:
      region.bound { bind($0, $1, index, encoder) }
    default:
      bind(device.sink.buffer, index * MetalBackend.sinkPiece, index, encoder)
    }
  }

  private mutating func bind(
    _ buffer: any MTLBuffer, _ offset: Int, _ index: Int, _ encoder: any MTLComputeCommandEncoder
  ) {
    let identity = ObjectIdentifier(buffer)
    if lists.bound[index].buffer == identity, lists.bound[index].offset == offset { return }
    encoder.setBuffer(buffer, offset: offset, index: index)
    lists.bound[index] = Bound(buffer: identity, offset: offset)
  }

  /// Lengths are multiples of 16. A kernel that asks for none gets the minimum, since the length of an earlier kernel
  /// would be added to its own threadgroup arrays.
  private mutating func setThreadgroupMemory(_ bytes: Int, _ encoder: any MTLComputeCommandEncoder) {
    let wanted = max(16, ceilDiv(bytes, 16) * 16)
    if bytes == 0, threadgroupBytes <= wanted { return }
    if wanted != threadgroupBytes { encoder.setThreadgroupMemoryLength(wanted, index: 0) }
    threadgroupBytes = wanted
  }

  /// The whole op in this command buffer.
  mutating func encode(_ op: GatedDelta, _ sequences: Sequences) throws(Failure) {
    var recurrence = try begin(op, sequences, workLimit: device.workLimit.value)
    for part in 0..<recurrence.parts { try encode(&recurrence, part: part) }
  }
}

extension Pipeline {
  func threads(_ wanted: Threads, _ kernel: Kernel) throws(Failure) -> Int {
    switch wanted {
    case .exactly(let count) where count <= maxThreads: return count
    case .upTo(let count) where maxThreads > 0: return min(count, maxThreads)
    case .exactly(let count), .upTo(let count):
      throw Failure(
        .device, expected: "a GPU that runs \(kernel.name) with \(count) threads", received: "at most \(maxThreads)")
    }
  }
}

/// Rounded up.
func ceilDiv(_ a: Int, _ b: Int) -> Int { (a + b - 1) / b }

extension UInt32 {
  /// A size or stride of a validated tensor. Those that a kernel uses fit 32 bits; one that does not belongs to a
  /// tensor of at most one row, which multiplies it by 0.
  init(element value: Int) { self = UInt32(truncatingIfNeeded: value) }
}
