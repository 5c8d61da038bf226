// Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.

import CGatedDelta
import GatedDeltaTypes

extension gd_gated_delta {
  static var opName: StaticString { "gatedDelta" }
}

@_cdecl("gd_encode_gated_delta")
public func encodeGatedDelta(_ target: UInt64, _ op: UnsafePointer<gd_gated_delta>?) -> gd_status {
  encode(op, into: target)
}

extension gd_causal_conv1d {
  static var opName: StaticString { "causalConv1d" }
}

@_cdecl("gd_encode_causal_conv1d")
public func encodeCausalConv1d(_ target: UInt64, _ op: UnsafePointer<gd_causal_conv1d>?) -> gd_status {
  encode(op, into: target)
}

extension gd_gated_rms_norm {
  static var opName: StaticString { "gatedRmsNorm" }
}

@_cdecl("gd_encode_gated_rms_norm")
public func encodeGatedRmsNorm(_ target: UInt64, _ op: UnsafePointer<gd_gated_rms_norm>?) -> gd_status {
  encode(op, into: target)
}

extension gd_rms_norm {
  static var opName: StaticString { "rmsNorm" }
}

@_cdecl("gd_encode_rms_norm")
public func encodeRmsNorm(_ target: UInt64, _ op: UnsafePointer<gd_rms_norm>?) -> gd_status {
  encode(op, into: target)
}

extension gd_gated_delta_step {
  static var opName: StaticString { "gatedDeltaStep" }
}

@_cdecl("gd_encode_gated_delta_step")
public func encodeGatedDeltaStep(_ target: UInt64, _ op: UnsafePointer<gd_gated_delta_step>?) -> gd_status {
  encode(op, into: target)
}

extension gd_linear {
  static var opName: StaticString { "linear" }
}

@_cdecl("gd_encode_linear")
public func encodeLinear(_ target: UInt64, _ op: UnsafePointer<gd_linear>?) -> gd_status {
  encode(op, into: target)
}

extension gd_add: OpDescriptor {
  static var opName: StaticString { "add" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try validator.elementwise(.add, (a, "a"), (b, "b"), out: out)
  }
}

@_cdecl("gd_encode_add")
public func encodeAdd(_ target: UInt64, _ op: UnsafePointer<gd_add>?) -> gd_status {
  encode(op, into: target)
}

extension gd_attention {
  static var opName: StaticString { "attention" }
}

@_cdecl("gd_encode_attention")
public func encodeAttention(_ target: UInt64, _ op: UnsafePointer<gd_attention>?) -> gd_status {
  encode(op, into: target)
}

extension gd_embedding {
  static var opName: StaticString { "embedding" }
}

@_cdecl("gd_encode_embedding")
public func encodeEmbedding(_ target: UInt64, _ op: UnsafePointer<gd_embedding>?) -> gd_status {
  encode(op, into: target)
}

extension gd_silu_mul: OpDescriptor {
  static var opName: StaticString { "siluMul" }

  func validate(_ validator: inout Validator) throws(Failure) {
    try validator.elementwise(.siluMul, (gate, "gate"), (up, "up"), out: out)
  }
}

@_cdecl("gd_encode_silu_mul")
public func encodeSiluMul(_ target: UInt64, _ op: UnsafePointer<gd_silu_mul>?) -> gd_status {
  encode(op, into: target)
}

extension gd_route {
  static var opName: StaticString { "route" }
}

@_cdecl("gd_encode_route")
public func encodeRoute(_ target: UInt64, _ op: UnsafePointer<gd_route>?) -> gd_status {
  encode(op, into: target)
}

extension gd_expert_linear {
  static var opName: StaticString { "expertLinear" }
}

@_cdecl("gd_encode_expert_linear")
public func encodeExpertLinear(_ target: UInt64, _ op: UnsafePointer<gd_expert_linear>?) -> gd_status {
  encode(op, into: target)
}

extension gd_combine_experts {
  static var opName: StaticString { "combineExperts" }
}

@_cdecl("gd_encode_combine_experts")
public func encodeCombineExperts(_ target: UInt64, _ op: UnsafePointer<gd_combine_experts>?) -> gd_status {
  encode(op, into: target)
}

extension gd_top_k {
  static var opName: StaticString { "topK" }
}

@_cdecl("gd_encode_top_k")
public func encodeTopK(_ target: UInt64, _ op: UnsafePointer<gd_top_k>?) -> gd_status {
  encode(op, into: target)
}

extension gd_copy_slots {
  static var opName: StaticString { "copySlots" }
}

@_cdecl("gd_encode_copy_slots")
public func encodeCopySlots(_ target: UInt64, _ op: UnsafePointer<gd_copy_slots>?) -> gd_status {
  encode(op, into: target)
}

extension gd_commit_gated_delta {
  static var opName: StaticString { "commitGatedDelta" }
}

@_cdecl("gd_encode_commit_gated_delta")
public func encodeCommitGatedDelta(_ target: UInt64, _ op: UnsafePointer<gd_commit_gated_delta>?) -> gd_status {
  encode(op, into: target)
}

extension gd_commit_causal_conv1d {
  static var opName: StaticString { "commitCausalConv1d" }
}

@_cdecl("gd_encode_commit_causal_conv1d")
public func encodeCommitCausalConv1d(_ target: UInt64, _ op: UnsafePointer<gd_commit_causal_conv1d>?) -> gd_status {
  encode(op, into: target)
}

extension gd_gated_delta_net_inplace {
  static var opName: StaticString { "gatedDeltaNetInplace" }
}

@_cdecl("gd_encode_gated_delta_net_inplace")
public func encodeGatedDeltaNetInplace(_ target: UInt64, _ op: UnsafePointer<gd_gated_delta_net_inplace>?) -> gd_status {
  encode(op, into: target)
}

extension gd_gated_delta_net_inplace_ids {
  static var opName: StaticString { "gatedDeltaNetInplaceIds" }
}

@_cdecl("gd_encode_gated_delta_net_inplace_ids")
public func encodeGatedDeltaNetInplaceIds(_ target: UInt64, _ op: UnsafePointer<gd_gated_delta_net_inplace_ids>?) -> gd_status {
  encode(op, into: target)
}

extension gd_ssm_conv_update_inplace {
  static var opName: StaticString { "ssmConvUpdateInplace" }
}

@_cdecl("gd_encode_ssm_conv_update_inplace")
public func encodeSsmConvUpdateInplace(_ target: UInt64, _ op: UnsafePointer<gd_ssm_conv_update_inplace>?) -> gd_status {
  encode(op, into: target)
}

extension gd_ssm_conv_update_inplace_ids {
  static var opName: StaticString { "ssmConvUpdateInplaceIds" }
}

@_cdecl("gd_encode_ssm_conv_update_inplace_ids")
public func encodeSsmConvUpdateInplaceIds(_ target: UInt64, _ op: UnsafePointer<gd_ssm_conv_update_inplace_ids>?) -> gd_status {
  encode(op, into: target)
}
