import CGatedDelta
import GatedDeltaTypes

/// A C struct that starts with its size and version.
protocol Descriptor {
  init()
  var size: UInt32 { get }
  var version: UInt32 { get }
}

extension gd_device_options: Descriptor {}
extension gd_device_info: Descriptor {}

enum Descriptors {
  /// A size beyond this belongs to no version of a descriptor, and looking for its end might leave the caller's memory.
  static let largest = 4096

  /// Copies a descriptor, since the caller's other threads may write to it meanwhile. A larger one, of a later version
  /// of the header, is valid if the part that this version does not know is 0.
  static func read<D: Descriptor>(_ pointer: UnsafePointer<D>?) throws(Failure) -> D {
    // As bytes from here on: it may not be aligned.
    guard let pointer = UnsafeRawPointer(pointer) else {
      throw Failure(.invalidArgument, argument: "descriptor", expected: "a pointer", received: "NULL")
    }
    let known = MemoryLayout<D>.size
    let size = pointer.loadUnaligned(as: UInt32.self)
    guard size >= known, size <= largest else {
      throw Failure(
        .invalidArgument, argument: "size", expected: "at least \(known) bytes, at most \(largest)", received: "\(size)")
    }
    var descriptor = D()
    withUnsafeMutableBytes(of: &descriptor) {
      $0.copyMemory(from: UnsafeRawBufferPointer(start: pointer, count: known))
    }
    guard descriptor.version == GD_ABI_VERSION else {
      throw Failure(
        .invalidArgument, argument: "version", expected: "\(GD_ABI_VERSION)", received: "\(descriptor.version)")
    }
    for offset in known..<Int(size) where pointer.load(fromByteOffset: offset, as: UInt8.self) != 0 {
      throw Failure(
        .invalidArgument, argument: "size", expected: "\(known) bytes, or 0 in all that follow",
        received: "\(size) bytes, of which byte \(offset) is not 0")
    }
    return descriptor
  }
}

/// An op's descriptor, which can be turned into a validated op.
protocol OpDescriptor: Descriptor {
  /// The public name, for messages.
  static var opName: StaticString { get }
  /// The field that keeps the alignment; structs that do not need it lack it.
  var reserved: UInt32 { get }
  /// Checks everything and ends with `validator.finish`; if it throws, nothing has been encoded.
  func validate(_ validator: inout Validator) throws(Failure)
}

extension OpDescriptor {
  var reserved: UInt32 { 0 }
}

/// The body of every `gd_encode_*`; those are generated.
func encode<D: OpDescriptor>(_ pointer: UnsafePointer<D>?, into handle: UInt64) -> gd_status {
  boundary(D.opName) { () throws(Failure) in
    let target = try Caller.target(handle)
    let descriptor = try Descriptors.read(pointer)
    try target.device.faults.takeEncode()
    try Check.reserved(descriptor.reserved)
    var validator = Validator(target: target, op: D.opName)
    defer { validator.end() }
    try descriptor.validate(&validator)
    return GD_OK
  }
}
