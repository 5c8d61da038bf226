import GatedDeltaTypes
import ShaderParams
import Testing

@testable import MetalBackend

#if os(Linux)
  import Glibc
#else
  import Darwin
#endif

/// Every kernel compiles on this device. GATED_DELTA_PIPELINES names a file for the facts that the receipt of a Mac keeps: the
/// device's cores, of each kernel the most threads of a threadgroup, its own threadgroup memory and the time of its compilation,
/// and the forms that this chip takes.
@Suite(.enabled(if: Devices.haveKernels, "there is no GPU and no translated shader library"))
struct PipelineTests {
  @Test func everyKernelCompiles() throws {
    let backend = try Devices.backend()
    var lines: [String] = []
    for kernel in KernelTests.reachable {
      let kernel = kernel.withConstants
      let start = ContinuousClock.now
      let pipeline = try backend.pipelines.pipeline(kernel)
      let (seconds, attoseconds) = (ContinuousClock.now - start).components
      #expect(pipeline.maxThreads >= GDM_SIMD_LANES && pipeline.threadgroupBytes <= 32768, "\(kernel.name)")
      let milliseconds: Double = Double(seconds) * 1e3 + Double(attoseconds) * 1e-15
      lines.append(
        """
        {"kernel": "\(kernel.name)", "maxThreads": \(pipeline.maxThreads), \
        "threadgroupBytes": \(pipeline.threadgroupBytes), "milliseconds": \(milliseconds)}
        """)
    }
    let forms = try formsTaken(backend)
    guard let path = getenv("GATED_DELTA_PIPELINES") else { return }
    let file = try #require(fopen(path, "w"))
    let cores = backend.chip.cores.map { "\($0)" } ?? "null"
    fputs(
      """
      {"cores": \(cores), "fewThreadgroups": \(backend.chip.fewThreadgroups), "kernels": [
      \(lines.joined(separator: ",\n"))
      ], "forms": [
      \(forms.joined(separator: ",\n"))
      ]}

      """, file)
    #expect(fclose(file) == 0)
  }

  /// A line for each choice of forms: microseconds of both, and which is taken. None where there are no trials.
  func formsTaken(_ backend: MetalBackend) throws -> [String] {
    guard let trials = backend.trials else { return [] }
    var lines: [String] = []
    for kernel in KernelTests.reachable {
      let choices: [Form] =
        switch kernel.family {
        case .project where kernel.format?.layout.kernel == "affine4": [.fourRows, .eightRows, .blocks, .matrixHalves, .manyTurns]
        case .project where kernel.format?.hasTwoOutputs == true: [.fourRows, .eightRows, .blocks, .matrixHalves, .twoOutputs]
        case .project: [.fourRows, .eightRows, .blocks, .matrixHalves]
        case .decode where kernel.storage != .f32: [.decodeRows]
        default: []
        }
      for form in choices {
        let choice = FormChoice(form, of: kernel)
        if backend.forms[choice] == nil, let measured = try FormTrial(device: backend, size: trials).measure(choice) {
          backend.forms.add(choice, measured)
        }
        guard let measured = backend.forms[choice] else { continue }
        lines.append(
          "{\"form\": \"\(form)\", \"kernel\": \"\(kernel.name)\", \"many\": \(measured.many * 1e6), "
            + "\"few\": \(measured.few * 1e6), \"takesMany\": \(measured.takesMany)}")
      }
    }
    return lines
  }

  /// With few threadgroups other variants run than with many, with the same bits.
  @Test func theNumberOfCoresChangesNoBit() throws {
    #expect(Chip(cores: 38).fewThreadgroups == 76 && Chip(cores: nil).fewThreadgroups == 32)
    #if os(Linux)
      let (small, large) = (
        try MetalBackend(device: Devices.emulated(), chip: Chip(cores: 0)),
        try MetalBackend(device: Devices.emulated(), chip: Chip(cores: 1000))
      )
      for seed in UInt64(0)..<8 {
        var (a, b) = (Maker(small, seed: seed), Maker(large, seed: seed))
        let lengths = [17, 40]
        #expect(small.run(try a.gatedDelta(algorithm: .recurrent, lengths: lengths), try a.step()) == nil)
        #expect(large.run(try b.gatedDelta(algorithm: .recurrent, lengths: lengths), try b.step()) == nil)
        for (x, y) in zip(a.outputs, b.outputs) { #expect(x.memory.bytes.elementsEqual(y.memory.bytes), "\(seed)") }
      }
      #expect(Set(small.pipelines.kernels) != Set(large.pipelines.kernels))
    #endif
  }
}

extension Kernel {
  /// With a value for every function constant: the largest tile, where there is a choice.
  fileprivate var withConstants: Kernel {
    var kernel = self
    for index in Constants.Index.allCases {
      if index.isBool { kernel.constants.set(index, false) } else { kernel.constants.set(index, UInt32(0)) }
    }
    kernel.constants.set(.convWidth, UInt32(4))
    kernel.constants.set(.normParts, UInt32(1))
    if let layout = format?.layout {
      kernel.constants.set(.matrixGroup, UInt32(layout.elements.trailingZeroBitCount))
      kernel.constants.set(.matrixVariant, UInt32(layout.variant))
      kernel.constants.set(.matrixAlignment, UInt32(4))
    }
    switch family {
    case .project, .expertProject: kernel.constants.set(.tileRows, UInt32(GDM_PROJECT_ROWS))
    case .step: kernel.constants.set(.tileRows, UInt32(2 * GDM_STEP_ROWS))
    case .prefill: kernel.constants.set(.tileRows, UInt32(1))
    default:
      let shape = DecodeShape(storage ?? .f32, keyClass ?? .kany, most: true)
      kernel.constants.set(.tileRows, UInt32(shape.tileRows))
    }
    return kernel
  }
}
