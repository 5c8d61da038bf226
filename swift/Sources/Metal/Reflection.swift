/// The translated library's description of one kernel: enough to name a misused argument and to check its size and
/// alignment.
struct KernelReflection {
  struct Buffer {
    var index: Int
    var name: String
    /// `constant T&`: everything it refers to must be bound, not only its start.
    var isReference: Bool
    /// Of an element, or of the object referred to.
    var byteCount: Int
    var alignment: Int
  }

  /// The shader file that it is in.
  var file = ""
  var buffers: [Int: Buffer] = [:]
  /// Names of the threadgroup arguments whose length the host sets.
  var threadgroups: [Int: String] = [:]

  private init(_ kernel: JSON) {
    file = kernel["file"]?.text ?? ""
    for buffer in kernel["buffers"]?.elements ?? [] {
      guard let index = buffer["index"]?.integer else { continue }
      buffers[index] = Buffer(
        index: index, name: buffer["name"]?.text ?? "", isReference: buffer["reference"]?.flag ?? false,
        byteCount: buffer["bytes"]?.integer ?? 1, alignment: max(1, buffer["align"]?.integer ?? 1))
    }
    for argument in kernel["threadgroups"]?.elements ?? [] {
      if let index = argument["index"]?.integer { threadgroups[index] = argument["name"]?.text ?? "" }
    }
  }

  /// The descriptions of a library's kernels, by the library's text.
  static let known = Texts { read($0) }

  /// By kernel name; nil if the text is not of the form that `emulator.h` describes.
  static func read(_ text: String) -> [String: KernelReflection]? {
    guard let kernels = JSON(text)?["kernels"]?.elements else { return nil }
    var all: [String: KernelReflection] = [:]
    for kernel in kernels {
      guard let name = kernel["name"]?.text else { return nil }
      all[name] = KernelReflection(kernel)
    }
    return all
  }

  /// `buffer 3 (gate)`.
  func describe(buffer index: Int) -> String {
    "buffer \(index)" + (buffers[index].map { " (\($0.name))" } ?? "")
  }
}
