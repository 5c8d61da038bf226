import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// The header's constants and the Swift enums agree.
@Suite struct ConstantTests {
  /// A function with types: the compiler takes seconds to infer them from the constants.
  private func values(_ constants: Int32...) -> [UInt32] { constants.map(UInt32.init) }

  @Test func enumsHaveTheHeadersValues() {
    #expect(
      DType.allCases.map(\.rawValue)
        == values(GD_F32, GD_F16, GD_BF16, GD_I32, GD_U32, GD_ID32, GD_U8))
    #expect(BackendKind.cpu.rawValue == UInt32(GD_BACKEND_CPU) && BackendKind.metal.rawValue == UInt32(GD_BACKEND_METAL))
    #expect(
      GateForm.allCases.map(\.rawValue)
        == values(GD_GATE_DECAY, GD_GATE_LOG, GD_GATE_NEG_LOG, GD_GATE_RAW, GD_GATE_RAW_SSM, GD_GATE_RAW_BOUNDED))
    #expect(GateForm.allCases.map(\.isRaw) == [false, false, false, true, true, true])
    #expect(GateDims.allCases.map(\.rawValue) == values(GD_GATE_PER_HEAD, GD_GATE_PER_KEY))
    #expect(
      BetaForm.allCases.map(\.rawValue)
        == values(GD_BETA_GIVEN, GD_BETA_SIGMOID, GD_BETA_TWICE_SIGMOID))
    #expect(HeadMap.allCases.map(\.rawValue) == values(GD_HEADS_BLOCK, GD_HEADS_TILED))
    #expect(
      QKNorm.allCases.map(\.rawValue)
        == values(GD_NORM_NONE, GD_NORM_L2, GD_NORM_L2_MAX, GD_NORM_RMS))
    #expect(
      Algorithm.allCases.map(\.rawValue)
        == values(GD_ALGORITHM_AUTO, GD_ALGORITHM_RECURRENT, GD_ALGORITHM_CHUNKED))
    #expect(
      Activation.allCases.map(\.rawValue)
        == values(GD_ACTIVATION_NONE, GD_ACTIVATION_SILU, GD_ACTIVATION_SIGMOID))
    #expect(NormOrder.allCases.map(\.rawValue) == values(GD_NORM_THEN_GATE, GD_GATE_THEN_NORM))
  }

  @Test func failureCodesHaveTheHeadersValues() {
    let codes = [
      GD_ERROR_INVALID_ARGUMENT, GD_ERROR_SHAPE, GD_ERROR_DTYPE, GD_ERROR_RANGE, GD_ERROR_OVERLAP, GD_ERROR_HANDLE,
      GD_ERROR_UNSUPPORTED, GD_ERROR_OUT_OF_MEMORY, GD_ERROR_TIMEOUT, GD_ERROR_DEVICE, GD_ERROR_STATE,
      GD_ERROR_INTERNAL, GD_ERROR_FILE,
    ]
    #expect(Failure.Code.allCases.map(\.rawValue) == codes)
  }

  @Test func messagesNameOptionsAsTheTypeScriptApiDoes() throws {
    #expect(
      GateForm.allCases.map(\.publicName) == ["decay", "log", "neg-log", "raw", "raw-ssm", "raw-bounded"])
    #expect(GateDims.allCases.map(\.publicName) == ["head", "key"])
    #expect(BetaForm.allCases.map(\.publicName) == ["given", "sigmoid", "2-sigmoid"])
    #expect(HeadMap.allCases.map(\.publicName) == ["block", "tiled"])
    #expect(QKNorm.allCases.map(\.publicName) == ["none", "l2", "l2-max", "rms"])
    #expect(Algorithm.allCases.map(\.publicName) == ["auto", "recurrent", "chunked"])
    #expect(Activation.allCases.map(\.publicName) == ["none", "silu", "sigmoid"])
    #expect(NormOrder.allCases.map(\.publicName) == ["norm-then-gate", "gate-then-norm"])
    let fixture = try Fixture()
    var op = try fixture.gatedDelta(form: .negLog)
    op.gate_bound = -1
    #expect(gd_encode_gated_delta(fixture.device, &op) == GD_ERROR_INVALID_ARGUMENT)
    #expect(LastError().message == "gatedDelta: gateBound: expected none with gateForm neg-log, got -1.0")
  }

  @Test func versions() {
    #expect(gd_abi_version() == UInt32(GD_ABI_VERSION))
    let version = String(cString: gd_version())
    #expect(version.split(separator: ".").count == 3 && version.allSatisfy { $0.isNumber || $0 == "." })
  }
}
