import CGatedDelta
import GatedDeltaTypes

/// Turns the tensors of one descriptor into views, and remembers their extents so that the overlap rule can be checked
/// at the end. It locks the handle table, so that no other thread's release comes between the lookups of one op; the
/// function that creates a validator must end its lookups.
struct Validator {
  struct Extent {
    var name: StaticString
    var start: UInt
    var end: UInt
    var isOutput: Bool
  }

  let target: Target
  let device: Device
  let op: StaticString
  private let table = HandleTable.shared
  private var isLocked = true
  /// True if the op uses memory that is not the library's own.
  private(set) var borrows = false
  /// The mapped files that the op reads.
  private(set) var files: [MappedFile] = []
  /// The buffers that the op uses, collected only if the target needs them.
  private(set) var uses: [Plan.Use] = []
  private let collectsUses: Bool
  private var extents: [Extent] = []

  init(target: Target, op: StaticString) {
    self.target = target
    self.op = op
    switch target {
    case .device(let device):
      self.device = device
      collectsUses = false
    case .plan(let plan):
      device = plan.device
      collectsUses = true
    }
    extents = device.takeExtents()
    table.lock()
  }

  /// Called once, when the op has been encoded or refused.
  mutating func end() {
    endLookups()
    device.keepExtents(&extents)
  }

  /// Call it after every tensor has been looked up. A second call changes nothing.
  mutating func endLookups() {
    if isLocked { table.unlock() }
    isLocked = false
  }

  mutating func buffer(_ handle: UInt64, _ name: StaticString) throws(Failure) -> Buffer {
    let buffer = try table.buffer(handle, "\(name)")
    guard buffer.device == device.serial else {
      throw Failure(
        .handle, argument: "\(name)", expected: "a buffer of the same device", received: "one of another device")
    }
    switch buffer.memory.origin {
    case .own: break
    case .wrapped: borrows = true
    case .mapped(let window): files.unite([window.file])
    case .joined(let pieces): files.unite(pieces.files)
    }
    if collectsUses { uses.append(Plan.Use(buffer: buffer, op: "\(op)", argument: "\(name)")) }
    return buffer
  }

  /// The layouts that a tensor may have in its buffer.
  enum Layout {
    /// Free strides except in the last dimension. Rows whose length is a multiple of 8 are read as vectors, so their
    /// strides and offset must be multiples of 8 elements.
    case rows
    /// Contiguous, aligned like rows.
    case vectorBlock
    /// Contiguous, at any element.
    case block
    /// Contiguous, at any byte.
    case bytes
    /// Contiguous, at any byte, or a piece of mapped memory for each index of the first dimension.
    case pieces
  }

  /// A tensor's dimensions, as many as its layout has names.
  func dims(_ tensor: gd_tensor, _ name: StaticString, _ layout: StaticString, rank: Int) throws(Failure)
    -> Dims
  {
    let dims = try dims(tensor, name)
    guard dims.rank == rank else {
      throw Failure(.shape, argument: "\(name)", expected: "\(layout)", received: dims.text)
    }
    return dims
  }

  /// A tensor's dimensions, of any rank.
  func dims(_ tensor: gd_tensor, _ name: StaticString) throws(Failure) -> Dims {
    guard !tensor.isAbsent else {
      throw Failure(.invalidArgument, argument: "\(name)", expected: "a tensor", received: "none")
    }
    guard tensor.rank >= 1, tensor.rank <= 8 else {
      throw Failure(.shape, argument: "\(name)", expected: "1 to 8 dimensions", received: "\(tensor.rank)")
    }
    let dims = Dims(tensor)
    for axis in 0..<dims.rank {
      guard dims[axis] <= UInt32(Int32.max) else {
        throw Failure(
          .shape, argument: "\(name)", expected: "dimensions of at most \(Int32.max)", received: dims.text)
      }
      guard tensor.stride(axis) >= 1 || dims[axis] <= 1 else {
        throw Failure(
          .shape, argument: "\(name)", expected: "strides of at least 1", received: "strides \(tensor.stridesText)")
      }
    }
    return dims
  }

  /// - Parameters:
  ///   - layout: the dimensions' names, for messages.
  ///   - shape: the dimensions that the backends see, if they differ from `dims`.
  mutating func input(
    _ tensor: gd_tensor, _ name: StaticString, _ dims: Dims, _ layout: StaticString, _ dtypes: DTypes,
    _ placement: Layout = .rows, as shape: Shape? = nil
  ) throws(Failure) -> TensorView {
    try view(tensor, name, dims, layout, dtypes, placement, shape ?? Shape(dims), isOutput: false)
  }

  /// Also for pools, which are read and written.
  mutating func output(
    _ tensor: gd_tensor, _ name: StaticString, _ dims: Dims, _ layout: StaticString, _ dtypes: DTypes,
    _ placement: Layout = .rows, as shape: Shape? = nil
  ) throws(Failure) -> TensorView {
    try view(tensor, name, dims, layout, dtypes, placement, shape ?? Shape(dims), isOutput: true)
  }

  private mutating func view(
    _ tensor: gd_tensor, _ name: StaticString, _ dims: Dims, _ layout: StaticString, _ dtypes: DTypes,
    _ placement: Layout, _ shape: Shape, isOutput: Bool
  ) throws(Failure) -> TensorView {
    let given = try self.dims(tensor, name)
    let buffer = try buffer(tensor.buffer, name)
    guard given == dims else {
      throw Failure(.shape, argument: "\(name)", expected: "\(layout) = \(dims.text)", received: given.text)
    }
    guard let dtype = DType(rawValue: tensor.dtype), dtypes.contains(DTypes(dtype)) else {
      throw Failure(
        .dtype, argument: "\(name)", expected: dtypes.names,
        received: DType(rawValue: tensor.dtype)?.name ?? "\(tensor.dtype), which is no dtype")
    }
    guard !isOutput || !buffer.memory.isReadOnly else { throw Validator.onlyRead("\(name)", "memory that can be written") }
    let pieces = buffer.memory.pieces
    guard pieces == nil || placement == .pieces else {
      throw Failure(
        .invalidArgument, argument: "\(name)", expected: "memory in one piece", received: "pieces, as of experts' weights")
    }
    let strides = try strides(tensor, name, dims, placement, shape)
    let alignment: UInt64
    switch placement {
    case .bytes, .pieces: alignment = 1
    case .block: alignment = UInt64(dtype.size)
    case .rows, .vectorBlock: alignment = UInt64(dtype.size) &* (shape.hasVectors ? 8 : 1)
    }
    guard tensor.offset % alignment == 0 else {
      throw Failure(
        .range, argument: "\(name)",
        expected: "an offset that is a multiple of \(alignment) bytes (\(Int(alignment) / dtype.size) of \(dtype.name))",
        received: "\(tensor.offset)")
    }
    let available = UInt64(buffer.memory.byteCount)
    let bytes = strides.extent(of: shape)?.multipliedReportingOverflow(by: UInt64(dtype.size))
    guard let bytes, !bytes.overflow, tensor.offset <= available, bytes.partialValue <= available &- tensor.offset else {
      let wanted = bytes.map { $0.overflow ? "too many bytes" : "\($0.partialValue) bytes" } ?? "too many bytes"
      throw Failure(
        .shape, argument: "\(name)", expected: "a tensor inside its buffer of \(available) bytes",
        received: "\(wanted) at offset \(tensor.offset)")
    }
    if let pieces {
      guard tensor.offset == 0, UInt64(dims[0]) == UInt64(pieces.pieces.count), bytes.partialValue == available else {
        throw Failure(
          .shape, argument: "\(name)", expected: "all of its \(pieces.pieces.count) pieces, \(pieces.bytesEach) bytes each",
          received: "\(dims.text) of \(dtype.name) at offset \(tensor.offset)")
      }
    }
    if isOutput, strides.rowsOverlap(in: shape) {
      throw Failure(
        .overlap, argument: "\(name)", expected: "strides that keep an output's rows apart",
        received: "strides \(tensor.stridesText) for shape \(dims.text)")
    }
    let view = TensorView(
      memory: buffer.memory, offset: Int(tensor.offset), dtype: dtype, tokenStride: Int(strides.token),
      headStride: Int(strides.head))
    // Nothing can write to pieces.
    if bytes.partialValue > 0, pieces == nil {
      let start = UInt(bitPattern: view.pointer)
      extents.append(Extent(name: name, start: start, end: start &+ UInt(bytes.partialValue), isOutput: isOutput))
    }
    return view
  }

  static func onlyRead(_ argument: String, _ expected: String) -> Failure {
    Failure(.invalidArgument, argument: argument, expected: expected, received: "a mapped file's, which is only read")
  }

  /// The strides between the rows of `shape`.
  private func strides(
    _ tensor: gd_tensor, _ name: StaticString, _ dims: Dims, _ placement: Layout, _ shape: Shape
  ) throws(Failure) -> Strides {
    switch placement {
    case .block, .vectorBlock, .bytes, .pieces:
      guard tensor.isContiguous(dims) else {
        throw Failure(
          .shape, argument: "\(name)", expected: "a contiguous tensor",
          received: "strides \(tensor.stridesText) for shape \(dims.text)")
      }
      guard let strides = Strides(token: 0, head: 0, of: shape) else {
        throw Failure(.shape, argument: "\(name)", expected: "a tensor inside its buffer", received: dims.text)
      }
      return strides
    case .rows:
      let last = dims.rank &- 1
      guard tensor.stride(last) == 1 || dims[last] <= 1 else {
        throw Failure(
          .shape, argument: "\(name)", expected: "a last dimension of stride 1",
          received: "strides \(tensor.stridesText)")
      }
      let between = try betweenRows(tensor, name, dims, shape)
      guard let strides = Strides(token: between.token, head: between.head, of: shape) else {
        throw Failure(
          .shape, argument: "\(name)", expected: "strides inside its buffer", received: "strides \(tensor.stridesText)")
      }
      guard !shape.hasVectors || (strides.token % 8 == 0 && strides.head % 8 == 0) else {
        throw Failure(
          .shape, argument: "\(name)", expected: "strides that are multiples of 8 elements",
          received: "strides \(tensor.stridesText)")
      }
      return strides
    }
  }

  /// The strides between tokens and between heads; 0 means contiguous.
  private func betweenRows(
    _ tensor: gd_tensor, _ name: StaticString, _ dims: Dims, _ shape: Shape
  ) throws(Failure) -> (token: UInt64, head: UInt64) {
    if shape.isEmpty { return (0, 0) }
    let leading = shape.mergesSequences ? 2 : 1
    let head = dims.rank == leading &+ 2 ? UInt64(tensor.stride(leading)) : 0
    guard shape.mergesSequences else { return (UInt64(tensor.stride(0)), head) }
    // Sequences of one token follow one another with their own stride.
    if dims[1] == 1 { return (UInt64(tensor.stride(0)), head) }
    guard dims[0] == 1 || UInt64(tensor.stride(0)) == UInt64(dims[1]) &* UInt64(tensor.stride(1)) else {
      throw Failure(
        .shape, argument: "\(name)", expected: "sequences that follow one another with the stride of tokens",
        received: "strides \(tensor.stridesText)")
    }
    return (UInt64(tensor.stride(1)), head)
  }

  /// Rows [tokens, heads, dim] or [tokens, dim].
  func rows(of tensor: gd_tensor, _ name: StaticString) throws(Failure) -> (dims: Dims, layout: StaticString) {
    let dims = try dims(tensor, name)
    guard dims.rank == 2 || dims.rank == 3 else {
      throw Failure(
        .shape, argument: "\(name)", expected: "[tokens, heads, dim] or [tokens, dim]", received: dims.text)
    }
    return (dims, dims.rank == 2 ? "[tokens, dim]" : "[tokens, heads, dim]")
  }

  /// Exempts the last input from the overlap rule: it has turned out to be exactly the range of an output.
  mutating func forget(_ input: TensorView) {
    guard let last = extents.last, !last.isOutput, last.start == UInt(bitPattern: input.pointer) else { return }
    extents.removeLast()
  }

  /// Inputs may overlap each other; the range of an output, from its first element to its last, must overlap nothing.
  /// Compared by address, which also covers two handles of one memory.
  func checkOverlaps() throws(Failure) {
    for (position, output) in extents.enumerated() where output.isOutput {
      for (other, extent) in extents.enumerated()
      where other != position && extent.start < output.end && output.start < extent.end {
        // Of two outputs the message names the later one, of an output and an input the output.
        if extent.isOutput, other > position { continue }
        throw Failure(
          .overlap, argument: "\(output.name)", expected: "memory that no other tensor of the op overlaps",
          received: "an overlap with \(extent.name)")
      }
    }
  }
}
