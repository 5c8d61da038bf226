import GatedDeltaTypes
import Synchronization

#if canImport(Darwin)
  import Darwin
#endif

/// A form of a kernel that takes more registers or threadgroup memory than another form, for more work at a time. The chip decides
/// which is faster: one with registers left runs as many threads of this form, another runs fewer, or spills. Both give the same bits.
enum Form: UInt8, CaseIterable {
  /// A projection of blocks of rows by blocks of outputs; otherwise, tiles of rows.
  case blocks
  /// Tiles of eight rows and of four; otherwise, tiles of half as many.
  case eightRows
  case fourRows
  /// One row by 4-bit weights and few outputs: more reads together.
  case manyTurns
  /// Decode with 16-bit states, by the most rows that there is a form for; otherwise, by fewer.
  case decodeRows
  /// One row by ggml's blocks with scales of their own: two outputs per lane; otherwise, one.
  case twoOutputs
  /// Products by matrices: threadgroup memory for two steps, and one barrier per step; otherwise, memory for one and two barriers.
  case matrixHalves

  /// Without a measurement: if a pipeline has fewer threads than this, the other form is taken, which keeps more threads busy. GPUs
  /// whose pipelines have 1024 threads whatever their registers always take this form.
  static let leastThreads = 512
}

/// A choice between two forms: the kernels that it is for, whatever their other constants are.
struct FormChoice: Hashable {
  let form: Form
  let activation: DType
  /// Of decode's states.
  var storage: DType?
  var keyClass: Kernel.KeyClass?
  /// Of a projection's matrix, whether of experts or not.
  var format: WeightFormat?

  init(_ form: Form, of kernel: Kernel) {
    self.form = form
    activation = kernel.activation ?? .f32
    storage = kernel.storage
    keyClass = kernel.keyClass
    format = kernel.format
  }
}

/// Measurements of forms, on this chip with this version of the system: for each choice, the seconds of both forms.
final class Forms: Sendable {
  struct Measured: Equatable {
    let many, few: Double
    var takesMany: Bool { many <= few }
  }
  private let measured = Mutex<[FormChoice: Measured]>([:])

  subscript(choice: FormChoice) -> Measured? { measured.withLock { $0[choice] } }

  /// The first measurement stays: programs that run at the same time see one choice.
  func add(_ choice: FormChoice, _ new: Measured) { measured.withLock { if $0[choice] == nil { $0[choice] = new } } }

  var all: [FormChoice: Measured] { measured.withLock { $0 } }

  private static let known = Mutex<[String: Forms]>([:])

  /// The measurements of this process on such a chip.
  static func of(chip: String) -> Forms {
    let name = chip + " " + systemVersion()
    return known.withLock { known in
      let forms = known[name] ?? Forms()
      known[name] = forms
      return forms
    }
  }
}

/// The build of the system, which includes the compiler of shaders.
private func systemVersion() -> String {
  #if canImport(Darwin)
    var text = [UInt8](repeating: 0, count: 64)
    var length = text.count - 1
    guard sysctlbyname("kern.osversion", &text, &length, nil, 0) == 0 else { return "" }
    return String(decoding: text.prefix { $0 != 0 }, as: UTF8.self)
  #else
    return ""
  #endif
}

extension Pass {
  /// Whether to take the form with many registers, whose pipeline is that of `kernel`: as a trial of this pass says, else as
  /// measured, else by the pipeline's threads.
  mutating func takes(_ form: Form, _ kernel: Kernel) throws(Failure) -> Bool {
    if let tried, tried.form == form { return tried.many }
    let choice = FormChoice(form, of: kernel)
    choices?.insert(choice)
    if let measured = device.forms[choice] { return measured.takesMany }
    return try device.pipelines.pipeline(kernel).maxThreads >= Form.leastThreads
  }
}
