import CGatedDelta
import GatedDeltaTypes

@_cdecl("gd_encode_gated_delta")
public func encodeGatedDelta(_ target: UInt64, _ op: UnsafeRawPointer?) -> gd_status {
  encode(op, as: gd_gated_delta.self, into: target)
}

@_cdecl("gd_encode_causal_conv1d")
public func encodeCausalConv1d(_ target: UInt64, _ op: UnsafeRawPointer?) -> gd_status {
  encode(op, as: gd_causal_conv1d.self, into: target)
}

@_cdecl("gd_encode_gated_rms_norm")
public func encodeGatedRMSNorm(_ target: UInt64, _ op: UnsafeRawPointer?) -> gd_status {
  encode(op, as: gd_gated_rms_norm.self, into: target)
}

@_cdecl("gd_encode_gated_delta_step")
public func encodeGatedDeltaStep(_ target: UInt64, _ op: UnsafeRawPointer?) -> gd_status {
  encode(op, as: gd_gated_delta_step.self, into: target)
}

@_cdecl("gd_encode_linear")
public func encodeLinear(_ target: UInt64, _ op: UnsafeRawPointer?) -> gd_status {
  encode(op, as: gd_linear.self, into: target)
}

@_cdecl("gd_encode_copy_slots")
public func encodeCopySlots(_ target: UInt64, _ op: UnsafeRawPointer?) -> gd_status {
  encode(op, as: gd_copy_slots.self, into: target)
}

private func encode<D: OpDescriptor>(_ pointer: UnsafeRawPointer?, as type: D.Type, into handle: UInt64) -> gd_status {
  boundary(D.opName) { () throws(Failure) in
    let target = try Caller.target(handle)
    let descriptor = try Descriptors.read(pointer, as: D.self)
    switch target {
    case .device(let device):
      var validator = Validator(device: device, op: D.opName, collectsUses: false)
      defer { validator.endLookups() }
      if let op = try descriptor.validate(&validator).op { device.encode(op) }
    case .plan(let plan):
      var validator = Validator(device: plan.device, op: D.opName, collectsUses: true)
      defer { validator.endLookups() }
      plan.record(try descriptor.validate(&validator), uses: validator.uses)
    }
    return GD_OK
  }
}
