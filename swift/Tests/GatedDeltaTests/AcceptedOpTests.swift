import CGatedDelta
import GatedDeltaTypes
import Testing

@testable import GatedDelta

/// The op that reaches a backend matches its descriptor, field by field.
@Suite struct AcceptedOpTests {
  @Test func gatedDeltaArrivesWhole() throws {
    let fixture = try Fixture()
    var given = try fixture.gatedDelta(form: .rawBounded, dims: .perKey, dtype: .bf16)
    given.beta_form = BetaForm.twiceSigmoid.rawValue
    given.head_map = HeadMap.tiled.rawValue
    given.qk_norm = QKNorm.rms.rawValue
    given.algorithm = Algorithm.recurrent.rawValue
    given.out = try fixture.tensor(.f32, 6, 6, 8)
    #expect(gd_encode_gated_delta(fixture.device, &given) == GD_OK, "\(LastError())")
    guard case .gatedDelta(let op, let sequences)? = try fixture.committedOps().first else {
      Issue.record("no op")
      return
    }
    #expect([op.tokens, op.keyHeads, op.valueHeads, op.keyDim, op.valueDim, op.slots] == [6, 2, 6, 16, 8, 4])
    let options = op.options
    #expect(options.gateForm == .rawBounded && options.gateDims == .perKey && options.betaForm == .twiceSigmoid)
    #expect(options.headMap == .tiled && options.qkNorm == .rms && options.algorithm == .recurrent)
    #expect(options.qkNormEps == 1e-6 && options.scale == 0.25 && options.gateBound == -5)
    let tensors = [op.query, op.key, op.value, op.gate, op.beta, op.out]
    #expect(tensors.map(\.dtype) == [.bf16, .bf16, .bf16, .bf16, .bf16, .f32])
    #expect(tensors.map(\.tokenStride) == [32, 32, 48, 96, 6, 48])
    #expect(tensors.map(\.headStride) == [16, 16, 8, 16, 1, 8])
    let raw = try #require(op.raw)
    #expect(raw.aLog.dtype == .f32 && raw.dtBias.dtype == .bf16 && raw.dtBias.tokenStride == 16)
    let state = try #require(op.state)
    #expect(state.tokenStride == 6 * 8 * 16 && state.headStride == 8 * 16)
    #expect(sequences.starts == [0, 6] && sequences.readSlots == [0] && sequences.writeSlots == [0])
    #expect(sequences.count == 1 && sequences.stagedReads.isEmpty)
  }

  @Test func viewsOfOnePackedBufferKeepTheirOffsetsAndStrides() throws {
    let fixture = try Fixture()
    var given = try fixture.gatedDelta()
    // query | key | value of each token side by side, as a convolution leaves them.
    let (queries, values): (UInt32, UInt32) = (2 * 16, 6 * 8)
    let width = 2 * queries + values
    let packed = try fixture.buffer(6 * Int(width) * 4).handle
    given.query = gd_tensor(buffer: packed, .f32, [6, 2, 16])
    given.key = gd_tensor(buffer: packed, offset: 32 * 4, .f32, [6, 2, 16])
    given.value = gd_tensor(buffer: packed, offset: 64 * 4, .f32, [6, 6, 8])
    given.query.setStride(0, width)
    given.key.setStride(0, width)
    given.value.setStride(0, width)
    #expect(gd_encode_gated_delta(fixture.device, &given) == GD_OK, "\(LastError())")
    guard case .gatedDelta(let op, _)? = try fixture.committedOps().first else {
      Issue.record("no op")
      return
    }
    #expect([op.query, op.key, op.value].map(\.offset) == [0, 128, 256])
    #expect([op.query, op.key, op.value].map(\.tokenStride) == [112, 112, 112])
    #expect(op.value.headStride == 8 && op.value.pointer == op.query.pointer + 256)
    // An output among them would cover its neighbours, though none of its elements belongs to another tensor.
    given.out = given.value
    #expect(gd_encode_gated_delta(fixture.device, &given) == GD_ERROR_OVERLAP)
    #expect(LastError().argument == "out")
  }

  @Test func theOtherOpsArriveWhole() throws {
    let fixture = try Fixture()
    var conv = try fixture.causalConv1d(width: 9, dtype: .f16)
    var norm = try fixture.gatedRMSNorm()
    var step = try fixture.gatedDeltaStep()
    var linear = try fixture.linear()
    var copy = try fixture.copySlots(reads: [2, -1], writes: [0, -1])
    #expect(gd_encode_causal_conv1d(fixture.device, &conv) == GD_OK, "\(LastError())")
    #expect(gd_encode_gated_rms_norm(fixture.device, &norm) == GD_OK, "\(LastError())")
    #expect(gd_encode_gated_delta_step(fixture.device, &step) == GD_OK, "\(LastError())")
    #expect(gd_encode_linear(fixture.device, &linear) == GD_OK, "\(LastError())")
    #expect(gd_encode_copy_slots(fixture.device, &copy) == GD_OK, "\(LastError())")
    var embedding = try fixture.embedding()
    #expect(gd_encode_embedding(fixture.device, &embedding) == GD_OK, "\(LastError())")
    var lookup = try fixture.embeddingOfDeviceIds()
    #expect(gd_encode_embedding(fixture.device, &lookup) == GD_OK, "\(LastError())")
    var product = try fixture.siluMul()
    product.gate = product.out
    #expect(gd_encode_silu_mul(fixture.device, &product) == GD_OK, "\(LastError())")
    var route = try fixture.route()
    var largest = try fixture.topK()
    #expect(gd_encode_top_k(fixture.device, &largest) == GD_OK, "\(LastError())")
    var experts = try fixture.expertLinear()
    var combined = try fixture.combineExperts()
    combined.residual = combined.out
    #expect(gd_encode_route(fixture.device, &route) == GD_OK, "\(LastError())")
    #expect(gd_encode_expert_linear(fixture.device, &experts) == GD_OK, "\(LastError())")
    #expect(gd_encode_combine_experts(fixture.device, &combined) == GD_OK, "\(LastError())")
    let ops = try fixture.committedOps()
    #expect(
      ops.map(\.name) == [
        "causalConv1d", "gatedRmsNorm", "gatedDeltaStep", "linear", "copySlots", "embedding", "embedding", "siluMul", "topK",
        "route", "expertLinear", "combineExperts",
      ])
    for op in ops {
      switch op {
      case .causalConv1d(let op, let sequences):
        #expect([op.tokens, op.channels, op.width, op.slots] == [6, 24, 9, 4] && op.options.activation == .silu)
        #expect(op.x.tokenStride == 24 && op.weight.tokenStride == 9 && op.weight.dtype == .bf16)
        #expect(op.bias?.dtype == .f16 && op.state?.tokenStride == 24 * 8 && op.state?.headStride == 8)
        #expect(sequences.starts == [0, 6] && sequences.readSlots == [0])
      case .gatedRMSNorm(let op):
        #expect([op.tokens, op.heads, op.dim] == [3, 2, 16] && op.options.eps == 1e-6)
        #expect(op.options.activation == .silu && op.options.order == .normThenGate)
        #expect([op.x, op.z, op.weight, op.out].map(\.dtype) == [.f32, .bf16, .f32, .bf16])
      case .gatedDeltaStep(let op, let sequences):
        #expect([op.sequences, op.keyHeads, op.valueHeads, op.keyDim, op.valueDim] == [3, 2, 4, 8, 16])
        #expect(op.width == 4 && op.slots == 4 && op.options.gateForm == .raw && op.options.betaForm == .sigmoid)
        #expect(op.x.tokenStride == 96 && op.z.headStride == 16 && op.raw != nil && op.convBias != nil)
        #expect(op.convState?.tokenStride == 96 * 3 && op.state?.tokenStride == 4 * 16 * 8)
        #expect(sequences.starts == [0, 1, 2, 3] && sequences.readSlots == [0, 1, 2])
      case .linear(let op):
        #expect([op.rows, op.inFeatures, op.outFeatures] == [3, 16, 10])
        #expect([op.x, op.matrix.weight, op.out].map(\.dtype) == [.f16, .bf16, .f32] && op.matrix.format == .bf16)
      case .copySlots(let op, let sequences):
        // Of two copies one writes nothing.
        #expect(op.slots == 4 && op.slotElements == 5 && sequences.count == 1)
        #expect(sequences.readSlots == [2] && sequences.writeSlots == [0])
      case .embedding(let op, let ids):
        #expect([op.rows, op.vocabulary, op.dim] == [3, 5, 128])
        #expect(ids.readSlots == (op.deviceIds == nil ? [4, 0, 4] : []) && op.deviceIds.map(\.dtype) ?? .id32 == .id32)
        #expect(op.matrix.format == .affine8G64 && op.matrix.weight.tokenStride == 32)
      case .route(let op):
        #expect([op.tokens, op.experts, op.chosen] == [3, 8, 2] && op.options.normalize)
        #expect([op.logits, op.ids, op.weights].map(\.dtype) == [.bf16, .id32, .f32])
      case .topK(let op):
        #expect([op.rows, op.columns, op.chosen] == [3, 20, 4])
        #expect([op.x, op.values, op.ids].map(\.dtype) == [.bf16, .f32, .id32])
      case .expertLinear(let op):
        #expect([op.tokens, op.chosen, op.experts, op.inFeatures, op.outFeatures] == [3, 2, 5, 128, 10])
        #expect(op.matrices.format == .affine4G64 && op.matrices.rows == 50 && !op.sharesRows && op.x.headStride == 128)
      case .combineExperts(let op):
        #expect([op.tokens, op.chosen, op.dim] == [3, 2, 16] && op.replacesResidual)
        #expect([op.experts, op.shared, op.sharedGate, op.residual, op.out].map { $0?.dtype } == [.bf16, .f32, .bf16, .bf16, .bf16])
      case .elementwise(let op):
        #expect([op.tokens, op.heads, op.dim] == [3, 2, 16] && op.replacesA && !op.replacesB && op.operation == .siluMul)
      case .gatedDelta, .rmsNorm, .attention, .commitGatedDelta, .commitCausalConv1d: Issue.record("no test encoded one")
      }
    }
  }

  /// A linear of 10 by 768 features in a format.
  private func linear(in format: WeightFormat, _ fixture: Fixture) throws -> gd_linear {
    let layout = format.layout
    var linear = try fixture.linear(inFeatures: 768)
    linear.weight = try fixture.tensor(layout.dtype, 10, layout.stored(columns: 768))
    if layout.scales == .floats { linear.scales = try fixture.tensor(.f32, 10, 768 / layout.elements) }
    if layout.scales == .only(.u8) { linear.scales = try fixture.tensor(.u8, 10, 768 / layout.elements) }
    if layout.biases == .floats { linear.biases = try fixture.tensor(.f32, 10, 768 / layout.elements) }
    return linear
  }

  @Test func aFormatIsNamedOrFollowsFromTheShapes() throws {
    let fixture = try Fixture()
    for format in WeightFormat.allCases {
      // Blocks and scales of bytes have to be named.
      let ofBytes = format.layout.dtype == .u8 || format.layout.scales == .only(.u8)
      for named in ofBytes ? [format.rawValue] : [0, format.rawValue] {
        var linear = try linear(in: format, fixture)
        linear.weight_format = named
        linear.residual = linear.out
        #expect(gd_encode_linear(fixture.device, &linear) == GD_OK, "\(LastError())")
        guard case .linear(let op)? = try fixture.committedOps().first else {
          Issue.record("no linear")
          continue
        }
        let matrix = op.matrix
        #expect(matrix.format == format && [matrix.rows, matrix.columns] == [10, 768] && op.replacesResidual)
        #expect(matrix.weight.tokenStride * matrix.weight.dtype.size == 768 / format.layout.elements * format.layout.bytes)
        #expect((matrix.scales?.dtype == .f32) == (format.layout.scales == .floats))
        #expect((matrix.scales?.dtype == .u8) == (format.layout.scales == .only(.u8)))
        while let submission = fixture.backend.next() { submission.finish(nil) }
      }
    }
  }

  /// Several types of blocks take as many bytes.
  private static func haveOneShape(_ a: WeightFormat, _ b: WeightFormat) -> Bool {
    a.layout.dtype == .u8 && b.layout.dtype == .u8 && a.layout.stored(columns: 768) == b.layout.stored(columns: 768)
  }

  @Test func noOtherFormatFitsTheTensors() throws {
    let fixture = try Fixture()
    for format in WeightFormat.allCases {
      for other in WeightFormat.allCases where other != format && !Self.haveOneShape(format, other) {
        var linear = try linear(in: format, fixture)
        linear.weight_format = other.rawValue
        #expect(gd_encode_linear(fixture.device, &linear) != GD_OK, "\(format) as \(other)")
        #expect(["weight", "scales", "biases"].contains(LastError().argument), "\(LastError())")
      }
    }
  }

  @Test func aLayoutIsWholeBlocks() {
    for format in WeightFormat.allCases {
      let layout = format.layout
      #expect(layout.elements.nonzeroBitCount == 1 && layout.bytes % layout.dtype.size == 0, "\(format)")
      #expect(layout.isPacked || layout.bytes == layout.dtype.size, "\(format)")
    }
  }

  @Test func everyOptionIsAccepted() throws {
    let fixture = try Fixture()
    var count = 0
    for form in GateForm.allCases {
      for dims in GateDims.allCases {
        for dtype in [DType.f32, .f16, .bf16] {
          var op = try fixture.gatedDelta(form: form, dims: dims, dtype: dtype)
          for (beta, heads, norm) in [(1, 1, 1), (2, 2, 2), (3, 1, 3), (1, 2, 4)] as [(UInt32, UInt32, UInt32)] {
            (op.beta_form, op.head_map, op.qk_norm, op.algorithm) = (beta, heads, norm, norm % 3)
            #expect(gd_encode_gated_delta(fixture.device, &op) == GD_OK, "\(LastError())")
            count += 1
          }
        }
      }
    }
    #expect(try fixture.committedOps().count == count)
  }

  @Test func outputsMayBeF32AndRowsOfAnyLength() throws {
    let fixture = try Fixture()
    // 100 is not a multiple of 8: its rows are not vectors, so strides need not be multiples either.
    var norm = try fixture.gatedRMSNorm(tokens: 5, heads: 3, dim: 100)
    norm.out = gd_tensor(buffer: try fixture.buffer(5 * 3 * 101 * 4).handle, offset: 8, .f32, [5, 3, 100])
    norm.out.setStride(1, 101)
    norm.out.setStride(0, 303)
    #expect(gd_encode_gated_rms_norm(fixture.device, &norm) == GD_ERROR_SHAPE, "one element too far")
    norm.out.offset = 4
    #expect(gd_encode_gated_rms_norm(fixture.device, &norm) == GD_OK, "\(LastError())")
    var conv = try fixture.causalConv1d(tokens: 2, channels: 5, width: 2)
    #expect(gd_encode_causal_conv1d(fixture.device, &conv) == GD_OK, "\(LastError())")
  }

  @Test func aBackendsRefusalComesBackAsItIs() throws {
    let fixture = try Fixture()
    fixture.backend.refusal = ("gatedDelta", Failure(.unsupported, argument: "algorithm", expected: "a", received: "b"))
    var op = try fixture.gatedDelta()
    #expect(gd_encode_gated_delta(fixture.device, &op) == GD_ERROR_UNSUPPORTED)
    let error = LastError()
    #expect(error.message == "gatedDelta: algorithm: expected a, got b" && error.op == "gatedDelta")
    #expect(try fixture.committedOps().isEmpty)
  }

  @Test func emptyTensorsAreLegalAndReachNoBackendWithNothingToDo() throws {
    let fixture = try Fixture()
    var delta = try fixture.gatedDelta(tokens: 0, slots: 0)
    var conv = try fixture.causalConv1d(channels: 0)
    var norm = try fixture.gatedRMSNorm(tokens: 0)
    var rows = try fixture.gatedRMSNorm(dim: 0)
    var step = try fixture.gatedDeltaStep(sequences: 0)
    var linear = try fixture.linear(outFeatures: 0)
    var copy = try fixture.copySlots(slotElements: 0)
    #expect(gd_encode_gated_delta(fixture.device, &delta) == GD_OK, "\(LastError())")
    #expect(gd_encode_causal_conv1d(fixture.device, &conv) == GD_OK, "\(LastError())")
    #expect(gd_encode_gated_rms_norm(fixture.device, &norm) == GD_OK, "\(LastError())")
    #expect(gd_encode_gated_rms_norm(fixture.device, &rows) == GD_OK, "\(LastError())")
    #expect(gd_encode_gated_delta_step(fixture.device, &step) == GD_OK, "\(LastError())")
    #expect(gd_encode_linear(fixture.device, &linear) == GD_OK, "\(LastError())")
    #expect(gd_encode_copy_slots(fixture.device, &copy) == GD_OK, "\(LastError())")
    var none = try fixture.gatedDelta()
    none.cu_seqlens = try fixture.index([0]).index
    #expect(gd_encode_gated_delta(fixture.device, &none) == GD_OK, "\(LastError())")
    #expect(fixture.commit() == 0 && fixture.backend.submissions.isEmpty)

    // Without tokens there is still a state to move, and without input features there are zeros to write.
    var state = try fixture.gatedDelta(tokens: 0)
    var zeros = try fixture.linear(inFeatures: 0)
    #expect(gd_encode_gated_delta(fixture.device, &state) == GD_OK, "\(LastError())")
    #expect(gd_encode_linear(fixture.device, &zeros) == GD_OK, "\(LastError())")
    #expect(try fixture.committedOps().map(\.name) == ["gatedDelta", "linear"])
  }
}
