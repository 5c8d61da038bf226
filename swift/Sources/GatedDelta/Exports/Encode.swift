import CGatedDelta
import GatedDeltaTypes

@_cdecl("gd_encode_gated_delta")
public func encodeGatedDelta(_ target: UInt64, _ op: UnsafePointer<gd_gated_delta>?) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_causal_conv1d")
public func encodeCausalConv1d(_ target: UInt64, _ op: UnsafePointer<gd_causal_conv1d>?) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_gated_rms_norm")
public func encodeGatedRMSNorm(_ target: UInt64, _ op: UnsafePointer<gd_gated_rms_norm>?) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_gated_delta_step")
public func encodeGatedDeltaStep(_ target: UInt64, _ op: UnsafePointer<gd_gated_delta_step>?) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_linear")
public func encodeLinear(_ target: UInt64, _ op: UnsafePointer<gd_linear>?) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_copy_slots")
public func encodeCopySlots(_ target: UInt64, _ op: UnsafePointer<gd_copy_slots>?) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_commit_gated_delta")
public func encodeCommitGatedDelta(_ target: UInt64, _ op: UnsafePointer<gd_commit_gated_delta>?) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_commit_causal_conv1d")
public func encodeCommitCausalConv1d(_ target: UInt64, _ op: UnsafePointer<gd_commit_causal_conv1d>?) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_gated_delta_net_inplace")
public func encodeGatedDeltaNetInplace(
  _ target: UInt64, _ op: UnsafePointer<gd_gated_delta_net_inplace>?
) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_gated_delta_net_inplace_ids")
public func encodeGatedDeltaNetInplaceIds(
  _ target: UInt64, _ op: UnsafePointer<gd_gated_delta_net_inplace_ids>?
) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_ssm_conv_update_inplace")
public func encodeSSMConvUpdateInplace(
  _ target: UInt64, _ op: UnsafePointer<gd_ssm_conv_update_inplace>?
) -> gd_status {
  encode(op, into: target)
}

@_cdecl("gd_encode_ssm_conv_update_inplace_ids")
public func encodeSSMConvUpdateInplaceIds(
  _ target: UInt64, _ op: UnsafePointer<gd_ssm_conv_update_inplace_ids>?
) -> gd_status {
  encode(op, into: target)
}

private func encode<D: OpDescriptor>(_ pointer: UnsafePointer<D>?, into handle: UInt64) -> gd_status {
  boundary(D.opName) { () throws(Failure) in
    let target = try Caller.target(handle)
    let descriptor = try Descriptors.read(pointer)
    try target.device.faults.takeEncode()
    var validator = Validator(target: target, op: D.opName)
    defer { validator.endLookups() }
    try descriptor.validate(&validator)
    return GD_OK
  }
}
