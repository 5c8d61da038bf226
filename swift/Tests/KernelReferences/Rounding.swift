import GatedDeltaTypes

/// The 16-bit formats by their definition, apart from the kernels' bit tricks: the nearest multiple of the format's
/// spacing at that magnitude, ties to even.
enum Rounding {
  static func decode(_ bits: UInt16, _ dtype: DType) -> Float {
    if dtype == .bf16 { return Float(bitPattern: UInt32(bits) << 16) }
    let sign: Double = bits & 0x8000 == 0 ? 1 : -1
    let exponent = Int(bits >> 10) & 31
    let fraction = Double(bits & 0x3ff)
    if exponent == 31 { return fraction == 0 ? Float(sign) * .infinity : .nan }
    if exponent == 0 { return Float(sign * fraction * Double(sign: .plus, exponent: -24, significand: 1)) }
    return Float(sign * (1024 + fraction) * Double(sign: .plus, exponent: exponent - 25, significand: 1))
  }

  /// `x` rounded to the format, as a float.
  static func round(_ x: Float, _ dtype: DType) -> Float {
    if dtype == .f32 || x.isNaN || x.isInfinite || x == 0 { return x }
    let bits = dtype == .f16 ? 10 : 7
    let lowest = dtype == .f16 ? -14 : -126
    let largest: Double = dtype == .f16 ? 65504 : Double(Float(bitPattern: 0x7f7f_0000))
    let magnitude = Double(x.magnitude)
    let spacing = Double(sign: .plus, exponent: max(Int(magnitude.exponent), lowest) - bits, significand: 1)
    let rounded = (magnitude / spacing).rounded(.toNearestOrEven) * spacing
    let result = rounded > largest ? Float.infinity : Float(rounded)
    return x.sign == .minus ? -result : result
  }

  /// The bits of a float that the format can hold.
  static func encode(_ x: Float, _ dtype: DType) -> UInt16 {
    if dtype == .bf16 { return UInt16(round(x, .bf16).bitPattern >> 16) | (x.isNaN ? 0x40 : 0) }
    let sign: UInt16 = x.sign == .minus ? 0x8000 : 0
    if x.isNaN { return sign | 0x7e00 }
    let value = round(x, .f16).magnitude
    if value.isInfinite { return sign | 0x7c00 }
    if value == 0 { return sign }
    let exponent = max(Int(value.exponent), -14)
    let units = UInt16(Double(value) / Double(sign: .plus, exponent: exponent - 10, significand: 1))
    return sign | (units < 1024 ? units : (UInt16(exponent + 15) << 10) + units - 1024)
  }
}
