import GatedDeltaTypes

/// The bytes from a tensor's first element to its last.
struct Extent {
  private let start, end: UnsafeMutableRawPointer

  init(_ start: UnsafeMutableRawPointer, elements: Int, of size: Int) {
    self.start = start
    end = start + elements &* size
  }

  init(_ view: TensorView, rows: Int, columns: Int) {
    self.init(view.pointer, elements: (rows &- 1) &* view.tokenStride &+ columns, of: view.dtype.size)
  }

  func overlaps(_ other: Extent) -> Bool { start < other.end && other.start < end }
}
