import Testing

@testable import Metal

@Suite struct LibraryTests {
  /// The message that `make` fails with.
  func message(_ make: () throws -> Any) -> String? {
    do {
      _ = try make()
      return nil
    } catch {
      return "\(error)"
    }
  }

  @Test func theOptionsThatTheBitsNeed() throws {
    let rig = try Rig()
    func problem(_ change: (MTLCompileOptions) -> Void) -> String? {
      let options = Rig.options()
      change(options)
      return message { try rig.device.makeLibrary(source: FakeLibrary.source, options: options) }
    }
    #expect(problem { _ in } == nil)
    #expect(problem { $0.mathMode = .fast } == "the kernels promise their bits under mathMode .safe, not .fast")
    #expect(problem { $0.mathMode = .relaxed }?.contains(".relaxed") == true)
    #expect(
      problem { $0.mathFloatingPointFunctions = .fast } == "the kernels promise their bits with precise functions")
    #expect(problem { $0.languageVersion = .version4_1 } == "the kernels are written in MSL 3.2, not .version4_1")
    #expect(message { try rig.device.makeLibrary(source: FakeLibrary.source, options: nil) } != nil)
  }

  @Test func aKernelThatTheLibraryLacks() throws {
    let rig = try Rig()
    let constants = MTLFunctionConstantValues()
    #expect(
      message { try rig.library.makeFunction(name: "other", constantValues: constants) }
        == "other: the library has no such kernel")
  }

  /// A library is refused if its kernels were translated from another text than the one that Apple would compile.
  @Test func aTextThatTheKernelsWereNotMadeFrom() throws {
    let rig = try Rig()
    func problem(_ source: String) -> String? {
      message { try rig.device.makeLibrary(source: source, options: Rig.options()) }
    }
    let lines = FakeLibrary.source.split(separator: "\n", omittingEmptySubsequences: false)
    #expect(problem(FakeLibrary.source) == nil)
    for other in [
      FakeLibrary.source.replacing("f<2>", with: "f<3>"), FakeLibrary.source + "\nmore", "", String(FakeLibrary.source.dropLast()),
      lines.dropLast().joined(separator: "\n"), " " + FakeLibrary.source,
    ] {
      #expect(problem(other)?.contains("differs from the one that the emulated kernels were made from") == true)
    }
    #expect(problem(FakeLibrary.source.replacing("f<2>", with: "f<3>"))?.contains("in its line 3:") == true)
  }

  /// The text of some of the files makes a library of their kernels; each of them must be whole.
  @Test func aTextOfSomeFiles() {
    let all = ShaderText("#line 1 \"a.h\"\na\n\naa\n#line 1 \"b.metal\"\n\nb\n#line 1 \"c.metal\"\nc\n")
    func difference(_ text: String) -> String? { ShaderText(text).difference(from: all) }
    let some = "#line 1 \"c.metal\"\n#line 1 \"a.h\"\na\n\naa\n#line 1 \"c.metal\"\nc"
    #expect(ShaderText(some).files == ["a.h", "c.metal"] && difference(some) == nil)
    #expect(difference("#line 2 \"b.metal\"\nb\n") == nil)
    #expect(difference("#line 1 \"a.h\"\na\n") == "a.h, line 3")
    #expect(difference("#line 1 \"a.h\"\na\naa\n") == "a.h, line 2")
    #expect(difference("#line 1 \"b.metal\"\nb\n") == "b.metal, line 1")
    #expect(difference("#line 1 \"d.metal\"\nd\n") == "d.metal, line 1")
    #expect(difference("") == "its first line")
  }

  @Test func aLibraryOfAnotherBuild() throws {
    let rig = try Rig()
    func problem(_ bytes: [UInt8]) -> String? {
      message { try bytes.withUnsafeBytes { try rig.device.makeLibrary(data: DispatchData(bytes: $0)) } }
    }
    #expect(problem(EmulatedDevice.metallib(of: FakeLibrary.source)) == nil)
    #expect(problem(EmulatedDevice.metallib(of: FakeLibrary.source + "x")) == "not a library of these kernels")
    #expect(problem([]) == "not a library of these kernels")
  }

  @Test func functionConstants() throws {
    let rig = try Rig()
    func problem(_ set: (MTLFunctionConstantValues) -> Void) -> String? {
      let constants = MTLFunctionConstantValues()
      set(constants)
      return message { try rig.library.makeFunction(name: "plain", constantValues: constants) }
    }
    var (flag, number): (Bool, UInt32) = (true, 1)
    #expect(problem { $0.setConstantValue(&flag, type: .bool, index: 3) } == nil)
    #expect(problem { _ in } == "plain: function constant 3 (flag) is not set")
    #expect(
      problem { $0.setConstantValue(&number, type: .uint, index: 3) }
        == "plain: function constant 3 (flag) is a bool, not a uint")
    #expect(
      problem {
        $0.setConstantValue(&flag, type: .bool, index: 3)
        $0.setConstantValue(&number, type: .uint, index: 65536)
      } == "plain: a function constant's index is 65536, the last is 65535")
    #expect(problem { $0.setConstantValue(&flag, type: .bool, index: -1) } != nil)
  }

  @Test func whatALibrarySaysOfItself() {
    #expect(KernelReflection.read("") == nil)
    #expect(KernelReflection.read("{\"kernels\": [}") == nil)
    #expect(KernelReflection.read("{\"kernels\": [{\"name\": \"a\"}]} x") == nil)
    let kernels = KernelReflection.read(
      "{\"kernels\": [{\"name\": \"a\\\\b\", \"buffers\": [{\"index\": 2, \"name\": \"x\", \"reference\": true, "
        + "\"bytes\": 68, \"align\": 4, \"optional\": null}], \"threadgroups\": []}]}\n")
    let kernel = kernels?["a\\b"]
    #expect(kernel?.buffers[2]?.byteCount == 68 && kernel?.buffers[2]?.isReference == true)
    #expect(kernel?.describe(buffer: 2) == "buffer 2 (x)" && kernel?.describe(buffer: 3) == "buffer 3")
  }

  @Test func settingsComeFromTheEnvironment() {
    func settings(_ variables: [String: String]) -> EmulatedDevice.Settings { .init { variables[$0] } }
    #expect(settings([:]).maxThreads(of: "gd_step") == 1024)
    #expect(settings(["GATED_DELTA_EMULATOR_MAX_THREADS": "384"]).maxThreads(of: "gd_step") == 384)
    let two = settings(["GATED_DELTA_EMULATOR_MAX_THREADS": "gd_prefill:128,gd_step:96"])
    #expect(two.maxThreads(of: "gd_step_f32") == 96 && two.maxThreads(of: "gd_norm") == 1024)
    #expect(settings(["GATED_DELTA_EMULATOR_MAX_THREADS": "many"]).maxThreads(of: "gd_step") == 1024)
    #expect(settings(["GATED_DELTA_EMULATOR_DELAY": "250"]).delay == 250)
    #expect(settings(["GATED_DELTA_EMULATOR_CORES": "64"]).cores == 64 && settings([:]).cores == nil)
    for none in ["", "0", "-8", "many", "64 "] { #expect(settings(["GATED_DELTA_EMULATOR_CORES": none]).cores == nil) }
    #expect(settings([:]).speed == nil && settings(["GATED_DELTA_EMULATOR_SPEED": "0"]).speed == nil)
    let timed = settings(["GATED_DELTA_EMULATOR_SPEED": "1e6", "GATED_DELTA_EMULATOR_PATIENCE": "0.5"])
    #expect(timed.speed == 1e6 && timed.patience == 0.5)
    guard case .random(seed: 7) = settings(["GATED_DELTA_EMULATOR_ORDER": "random:7"]).order else {
      Issue.record("the order is not random:7")
      return
    }
  }
}
