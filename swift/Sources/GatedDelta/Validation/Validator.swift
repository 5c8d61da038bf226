import CGatedDelta
import GatedDeltaTypes

/// Turns the tensors of one descriptor into views, and remembers their extents so that the overlap rule can be checked
/// at the end. It locks the handle table, so that no other thread's release comes between the lookups of one op: whoever
/// makes one ends its lookups.
struct Validator {
  private struct Extent {
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
  /// Whether the op uses memory that is not the library's own.
  private(set) var borrows = false
  /// Which buffers the op uses, collected only where somebody will ask.
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
    extents.reserveCapacity(16)
    table.lock()
  }

  /// Every tensor is held by now. A second call changes nothing.
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
    if buffer.memory.isWrapped { borrows = true }
    if collectsUses { uses.append(Plan.Use(buffer: buffer, op: "\(op)", argument: "\(name)")) }
    return buffer
  }

  /// How a tensor may lie in its buffer.
  enum Layout {
    /// Free strides between tokens and heads. Rows whose length is a multiple of 8 are read as vectors, so that their
    /// strides and their offset are multiples of 8 elements.
    case rows
    /// Contiguous, aligned as rows are.
    case vectorBlock
    /// Contiguous, at any element.
    case block
  }

  mutating func input(
    _ tensor: gd_tensor, _ name: StaticString, _ shape: Shape, _ dtypes: DTypes, _ layout: Layout = .rows
  ) throws(Failure) -> TensorView {
    try view(tensor, name, shape, dtypes, layout, isOutput: false)
  }

  /// Also for pools, which are read and written.
  mutating func output(
    _ tensor: gd_tensor, _ name: StaticString, _ shape: Shape, _ dtypes: DTypes, _ layout: Layout = .rows
  ) throws(Failure) -> TensorView {
    try view(tensor, name, shape, dtypes, layout, isOutput: true)
  }

  func isAbsent(_ tensor: gd_tensor) -> Bool { tensor.buffer == 0 }

  /// For an argument that belongs to another choice of options: giving it is a mistake worth telling.
  func requireAbsent(_ tensor: gd_tensor, _ name: StaticString, because reason: String) throws(Failure) {
    guard isAbsent(tensor) else {
      throw Failure(.invalidArgument, argument: "\(name)", expected: "none \(reason)", received: "a tensor")
    }
  }

  private mutating func view(
    _ tensor: gd_tensor, _ name: StaticString, _ shape: Shape, _ dtypes: DTypes, _ layout: Layout, isOutput: Bool
  ) throws(Failure) -> TensorView {
    guard tensor.buffer != 0 else {
      throw Failure(.invalidArgument, argument: "\(name)", expected: "a tensor", received: "none")
    }
    let buffer = try buffer(tensor.buffer, name)
    try Check.reserved(tensor.reserved)
    guard let dtype = DType(rawValue: tensor.dtype), dtypes.contains(DTypes(dtype)) else {
      throw Failure(
        .dtype, argument: "\(name)", expected: dtypes.names,
        received: DType(rawValue: tensor.dtype)?.name ?? "\(tensor.dtype), which is no dtype")
    }
    let strides = try strides(tensor, name, shape, layout)
    let alignment = layout != .block && shape.hasVectors ? UInt64(8 * dtype.size) : UInt64(dtype.size)
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
    if isOutput, strides.rowsOverlap(in: shape) {
      throw Failure(
        .overlap, argument: "\(name)", expected: "strides that keep an output's rows apart",
        received: "a token stride of \(strides.token) and a head stride of \(strides.head) for rows of \(shape.row)")
    }
    let view = TensorView(
      memory: buffer.memory, offset: Int(tensor.offset), dtype: dtype, tokenStride: Int(strides.token),
      headStride: Int(strides.head))
    if bytes.partialValue > 0 {
      let start = UInt(bitPattern: view.pointer)
      extents.append(Extent(name: name, start: start, end: start &+ UInt(bytes.partialValue), isOutput: isOutput))
    }
    return view
  }

  private func strides(
    _ tensor: gd_tensor, _ name: StaticString, _ shape: Shape, _ layout: Layout
  ) throws(Failure) -> Strides {
    guard let strides = Strides(token: tensor.token_stride, head: tensor.head_stride, of: shape) else {
      throw Failure(
        .shape, argument: "\(name)", expected: "strides inside its buffer",
        received: "a token stride of \(tensor.token_stride) and a head stride of \(tensor.head_stride)")
    }
    switch layout {
    case .block, .vectorBlock:
      guard let packed = Strides(token: 0, head: 0, of: shape), packed.token == strides.token, packed.head == strides.head
      else {
        throw Failure(
          .shape, argument: "\(name)", expected: "a contiguous tensor",
          received: "a token stride of \(strides.token) and a head stride of \(strides.head) for rows of \(shape.row)")
      }
    case .rows:
      guard !shape.hasVectors || (strides.token % 8 == 0 && strides.head % 8 == 0) else {
        throw Failure(
          .shape, argument: "\(name)", expected: "strides that are multiples of 8 elements",
          received: "a token stride of \(strides.token) and a head stride of \(strides.head)")
      }
    }
    return strides
  }

  /// Takes back the overlap rule for the last input, which has turned out to be an output's very range.
  mutating func forget(_ input: TensorView) {
    guard let last = extents.last, !last.isOutput, last.start == UInt(bitPattern: input.pointer) else { return }
    extents.removeLast()
  }

  /// Inputs may overlap each other; what an output covers, from its first element to its last, overlaps nothing.
  /// Compared by address, so that two handles of one memory are seen through.
  func checkOverlaps() throws(Failure) {
    for (position, output) in extents.enumerated() where output.isOutput {
      for (other, extent) in extents.enumerated()
      where other != position && extent.start < output.end && output.start < extent.end {
        // Of two outputs the later one is named, of an output and an input the output.
        if extent.isOutput, other > position { continue }
        throw Failure(
          .overlap, argument: "\(output.name)", expected: "memory that no other tensor of the op overlaps",
          received: "an overlap with \(extent.name)")
      }
    }
  }
}
