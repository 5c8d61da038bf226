import GatedDeltaTypes

@testable import CPUBackend

/// A tensor [tokens, heads, dim] in its own memory, with padding between and around its rows, which must never be
/// written.
final class TestTensor {
  let memory: CPUMemory
  let dtype: DType
  let tokens, heads, dim, tokenStride, headStride, start: Int

  init(_ dtype: DType, tokens: Int, heads: Int = 1, dim: Int, padding: Int = 0) throws {
    self.dtype = dtype
    self.tokens = tokens
    self.heads = heads
    self.dim = dim
    headStride = dim + padding
    tokenStride = heads * headStride + padding
    start = padding
    memory = try CPUMemory(byteCount: (start + tokens * tokenStride + padding) * dtype.size)
  }

  var view: TensorView {
    TensorView(
      memory: memory, offset: start * dtype.size, dtype: dtype, tokenStride: max(tokenStride, 1),
      headStride: max(headStride, 1))
  }

  var count: Int { memory.byteCount / dtype.size }

  /// Raw elements, the room included.
  subscript(raw index: Int) -> Float {
    get {
      dtype == .f32
        ? memory.pointer.load(fromByteOffset: index * 4, as: Float.self)
        : Rounding.decode(memory.pointer.load(fromByteOffset: index * 2, as: UInt16.self), dtype)
    }
    set {
      if dtype == .f32 {
        memory.pointer.storeBytes(of: newValue, toByteOffset: index * 4, as: Float.self)
      } else {
        memory.pointer.storeBytes(of: Rounding.encode(newValue, dtype), toByteOffset: index * 2, as: UInt16.self)
      }
    }
  }

  func index(_ token: Int, _ head: Int, _ i: Int) -> Int { start + token * tokenStride + head * headStride + i }

  subscript(token: Int, head: Int, i: Int) -> Double {
    get { Double(self[raw: index(token, head, i)]) }
    set { self[raw: index(token, head, i)] = Float(newValue) }
  }

  /// Every element, the room included, at random.
  func fill(_ range: ClosedRange<Float>, _ random: inout Random) {
    for i in 0..<count { self[raw: i] = random.float(range) }
  }

  func fill(with value: Float) { for i in 0..<count { self[raw: i] = value } }

  var bytes: [UInt8] { Array(UnsafeRawBufferPointer(start: memory.pointer, count: memory.byteCount)) }

  func copy() throws -> TestTensor {
    let padding = start
    let other = try TestTensor(dtype, tokens: tokens, heads: heads, dim: dim, padding: padding)
    other.memory.pointer.copyMemory(from: memory.pointer, byteCount: memory.byteCount)
    return other
  }

  /// Bytes of rows first ..< end, heads side by side.
  func rowBytes(_ rows: Range<Int>) -> [UInt8] {
    var result: [UInt8] = []
    for token in rows {
      for head in 0..<heads {
        let from = memory.pointer + index(token, head, 0) * dtype.size
        result += UnsafeRawBufferPointer(start: from, count: dim * dtype.size)
      }
    }
    return result
  }
}

/// ‖x − reference‖ / ‖reference‖; a reference of zero requires zero.
func relativeRMS(_ pairs: [(Double, Double)]) -> Double {
  var difference = 0.0
  var norm = 0.0
  for (x, reference) in pairs {
    difference += (x - reference) * (x - reference)
    norm += reference * reference
  }
  if norm == 0 { return difference == 0 ? 0 : .infinity }
  return (difference / norm).squareRoot()
}

/// The additional error of rounding to the dtype, on top of f32 arithmetic.
func bound(_ dtype: DType, _ f32: Double = 2e-6) -> Double {
  switch dtype {
  case .bf16: 2e-3 * 1.5
  case .f16: 3e-4
  default: f32
  }
}
