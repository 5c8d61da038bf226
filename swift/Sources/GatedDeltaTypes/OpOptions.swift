// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

extension GatedDelta {
  /// The options of `gatedDelta`, validated.
  public struct Options: Sendable {
    public var gateForm: GateForm
    public var gateDims: GateDims
    public var betaForm: BetaForm
    public var headMap: HeadMap
    public var qkNorm: QKNorm
    public var algorithm: Algorithm
    public var qkNormEps: Float
    public var scale: Float
    public var gateBound: Float

    public init(
      gateForm: GateForm,
      gateDims: GateDims = .perHead,
      betaForm: BetaForm = .given,
      headMap: HeadMap = .block,
      qkNorm: QKNorm = .none,
      algorithm: Algorithm = .auto,
      qkNormEps: Float = 0.000001,
      scale: Float,
      gateBound: Float
    ) {
      self.gateForm = gateForm
      self.gateDims = gateDims
      self.betaForm = betaForm
      self.headMap = headMap
      self.qkNorm = qkNorm
      self.algorithm = algorithm
      self.qkNormEps = qkNormEps
      self.scale = scale
      self.gateBound = gateBound
    }
  }
}

extension CausalConv1d {
  /// The options of `causalConv1d`, validated.
  public struct Options: Sendable {
    public var activation: Activation

    public init(
      activation: Activation = .silu
    ) {
      self.activation = activation
    }
  }
}

extension GatedRMSNorm {
  /// The options of `gatedRmsNorm`, validated.
  public struct Options: Sendable {
    public var activation: Activation
    public var order: NormOrder
    public var eps: Float

    public init(
      activation: Activation = .silu,
      order: NormOrder = .normThenGate,
      eps: Float = 0.000001
    ) {
      self.activation = activation
      self.order = order
      self.eps = eps
    }
  }
}

extension RMSNorm {
  /// The options of `rmsNorm`, validated.
  public struct Options: Sendable {
    public var weightForm: WeightForm
    public var eps: Float

    public init(
      weightForm: WeightForm = .plain,
      eps: Float = 0.000001
    ) {
      self.weightForm = weightForm
      self.eps = eps
    }
  }
}

extension GatedDeltaStep {
  /// The options of `gatedDeltaStep`, validated.
  public struct Options: Sendable {
    public var gateForm: GateForm
    public var gateDims: GateDims
    public var betaForm: BetaForm
    public var headMap: HeadMap
    public var qkNorm: QKNorm
    public var convActivation: Activation
    public var normActivation: Activation
    public var normOrder: NormOrder
    public var qkNormEps: Float
    public var scale: Float
    public var gateBound: Float
    public var normEps: Float

    public init(
      gateForm: GateForm,
      gateDims: GateDims = .perHead,
      betaForm: BetaForm = .given,
      headMap: HeadMap = .block,
      qkNorm: QKNorm = .none,
      convActivation: Activation = .silu,
      normActivation: Activation = .silu,
      normOrder: NormOrder = .normThenGate,
      qkNormEps: Float = 0.000001,
      scale: Float,
      gateBound: Float,
      normEps: Float = 0.000001
    ) {
      self.gateForm = gateForm
      self.gateDims = gateDims
      self.betaForm = betaForm
      self.headMap = headMap
      self.qkNorm = qkNorm
      self.convActivation = convActivation
      self.normActivation = normActivation
      self.normOrder = normOrder
      self.qkNormEps = qkNormEps
      self.scale = scale
      self.gateBound = gateBound
      self.normEps = normEps
    }
  }
}

extension Linear {
  /// The options of `linear`, validated.
  public struct Options: Sendable {
    public var activations: ActivationForm
    public var products: Products

    public init(
      activations: ActivationForm = .exact,
      products: Products = .rows
    ) {
      self.activations = activations
      self.products = products
    }
  }
}

extension Attention {
  /// The options of `attention`, validated.
  public struct Options: Sendable {
    public var rotaryDim: Int
    public var weightForm: WeightForm
    public var ropeTheta: Float
    public var normEps: Float
    public var scale: Float
    public var products: Products

    public init(
      rotaryDim: Int = 0,
      weightForm: WeightForm = .plain,
      ropeTheta: Float = 10000,
      normEps: Float = 0.000001,
      scale: Float,
      products: Products = .rows
    ) {
      self.rotaryDim = rotaryDim
      self.weightForm = weightForm
      self.ropeTheta = ropeTheta
      self.normEps = normEps
      self.scale = scale
      self.products = products
    }
  }
}

extension Route {
  /// The options of `route`, validated.
  public struct Options: Sendable {
    public var normalize: Bool

    public init(
      normalize: Bool
    ) {
      self.normalize = normalize
    }
  }
}

extension ExpertLinear {
  /// The options of `expertLinear`, validated.
  public struct Options: Sendable {
    public var activations: ActivationForm
    public var products: Products

    public init(
      activations: ActivationForm = .exact,
      products: Products = .rows
    ) {
      self.activations = activations
      self.products = products
    }
  }
}

extension CommitGatedDelta {
  /// The options of `commitGatedDelta`, validated.
  public struct Options: Sendable {
    public var headMap: HeadMap

    public init(
      headMap: HeadMap = .block
    ) {
      self.headMap = headMap
    }
  }
}
