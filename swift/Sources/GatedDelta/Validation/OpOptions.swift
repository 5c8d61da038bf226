// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

import CGatedDelta
import GatedDeltaTypes

extension GatedDelta.Options {
  init(_ given: gd_gated_delta) throws(Failure) {
    self.init(
      gateForm: try Check.option(given.gate_form, "gateForm"),
      gateDims: try Check.option(given.gate_dims, "gateDims"),
      betaForm: try Check.option(given.beta_form, "betaForm"),
      headMap: try Check.option(given.head_map, "headMap"),
      qkNorm: try Check.option(given.qk_norm, "qkNorm"),
      algorithm: try Check.option(given.algorithm, "algorithm"),
      qkNormEps: try Check.number(given.qk_norm_eps, "qkNormEps", from: 0),
      scale: given.scale,
      gateBound: given.gate_bound
    )
  }
}

extension CausalConv1d.Options {
  init(_ given: gd_causal_conv1d) throws(Failure) {
    self.init(
      activation: try Check.option(given.activation, "activation", among: [.none, .silu])
    )
  }
}

extension GatedRMSNorm.Options {
  init(_ given: gd_gated_rms_norm) throws(Failure) {
    self.init(
      activation: try Check.option(given.activation, "activation", among: [.silu, .sigmoid]),
      order: try Check.option(given.order, "order"),
      eps: try Check.number(given.eps, "eps", from: 0)
    )
  }
}

extension RMSNorm.Options {
  init(_ given: gd_rms_norm) throws(Failure) {
    self.init(
      weightForm: try Check.option(given.weight_form, "weightForm"),
      eps: try Check.number(given.eps, "eps", from: 0)
    )
  }
}

extension GatedDeltaStep.Options {
  init(_ given: gd_gated_delta_step) throws(Failure) {
    self.init(
      gateForm: try Check.option(given.gate_form, "gateForm"),
      gateDims: try Check.option(given.gate_dims, "gateDims"),
      betaForm: try Check.option(given.beta_form, "betaForm"),
      headMap: try Check.option(given.head_map, "headMap"),
      qkNorm: try Check.option(given.qk_norm, "qkNorm"),
      convActivation: try Check.option(given.conv_activation, "convActivation", among: [.none, .silu]),
      normActivation: try Check.option(given.norm_activation, "normActivation", among: [.silu, .sigmoid]),
      normOrder: try Check.option(given.norm_order, "normOrder"),
      qkNormEps: try Check.number(given.qk_norm_eps, "qkNormEps", from: 0),
      scale: given.scale,
      gateBound: given.gate_bound,
      normEps: try Check.number(given.norm_eps, "normEps", from: 0)
    )
  }
}

extension Linear.Options {
  init(_ given: gd_linear) throws(Failure) {
    self.init(
      activations: try Check.option(given.activations, "activations"),
      products: try Check.option(given.products, "products")
    )
  }
}

extension Attention.Options {
  init(_ given: gd_attention) throws(Failure) {
    self.init(
      rotaryDim: try Check.integer(given.rotary_dim, "rotaryDim", from: 0),
      weightForm: try Check.option(given.weight_form, "weightForm"),
      ropeTheta: try Check.number(given.rope_theta, "ropeTheta", above: 0),
      normEps: try Check.number(given.norm_eps, "normEps", from: 0),
      scale: given.scale,
      products: try Check.option(given.products, "products")
    )
  }
}

extension Route.Options {
  init(_ given: gd_route) throws(Failure) {
    self.init(
      normalize: try Check.boolean(given.normalize, "normalize")
    )
  }
}

extension ExpertLinear.Options {
  init(_ given: gd_expert_linear) throws(Failure) {
    self.init(
      activations: try Check.option(given.activations, "activations"),
      products: try Check.option(given.products, "products")
    )
  }
}

extension CommitGatedDelta.Options {
  init(_ given: gd_commit_gated_delta) throws(Failure) {
    self.init(
      headMap: try Check.option(given.head_map, "headMap")
    )
  }
}
