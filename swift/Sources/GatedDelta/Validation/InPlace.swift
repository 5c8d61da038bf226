import CGatedDelta
import GatedDeltaTypes

extension Validator {
  /// Lets the last input overlap the output if it is the output itself.
  mutating func forget(_ input: TensorView, where isOutput: Bool) -> Bool {
    if isOutput { forget(input) }
    return isOutput
  }
}

extension gd_tensor {
  /// True if two tensors are the same elements in the same layout.
  func isSame(_ other: gd_tensor) -> Bool {
    guard buffer == other.buffer, offset == other.offset, dtype == other.dtype, rank == other.rank, rank <= 8 else {
      return false
    }
    return (0..<Int(rank)).allSatisfy { stride($0) == other.stride($0) }
  }
}
