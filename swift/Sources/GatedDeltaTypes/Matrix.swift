/// How the rows of a matrix are stored; `WeightFormat.layout` is the table of them.
public struct WeightLayout: Sendable {
  /// A tensor [rows, blocks of a row] next to the blocks.
  public enum Companion: Sendable, Equatable {
    case none
    /// Of any float dtype, the same for scales and biases.
    case floats
    case only(DType)
  }

  /// Elements of a block, a power of two, and its bytes. A row is whole blocks.
  public let elements, bytes: Int
  /// Of the tensor of blocks.
  public let dtype: DType
  /// The suffix of the names of the kernels that unpack it.
  public let kernel: String
  /// The format among those that the same kernels unpack: GDM_UNPACK_* of the shaders.
  public let variant: Int
  public let scales, biases: Companion

  public init(
    elements: Int, bytes: Int, dtype: DType, kernel: String, variant: Int = 0, scales: Companion = .none,
    biases: Companion = .none
  ) {
    self.elements = elements
    self.bytes = bytes
    self.dtype = dtype
    self.kernel = kernel
    self.variant = variant
    self.scales = scales
    self.biases = biases
  }

  /// Whether elements are packed into blocks of several.
  public var isPacked: Bool { elements > 1 }
  /// The number of elements that `columns` columns take in the tensor of blocks.
  public func stored(columns: Int) -> Int { columns / elements &* bytes / dtype.size }
}

/// A matrix [rows, columns] in one of the weight formats, whose tensors are contiguous.
public struct Matrix: Sendable {
  public let format: WeightFormat
  public let rows, columns: Int
  /// The blocks: [rows, `format.layout.stored(columns:)`].
  public let weight: TensorView
  /// [rows, blocks of a row]: present exactly if the format has them.
  public let scales, biases: TensorView?

  public init(
    format: WeightFormat, rows: Int, columns: Int, weight: TensorView, scales: TensorView? = nil, biases: TensorView? = nil
  ) {
    self.format = format
    self.rows = rows
    self.columns = columns
    self.weight = weight
    self.scales = scales
    self.biases = biases
  }

  public var isPacked: Bool { format.layout.isPacked }
}
