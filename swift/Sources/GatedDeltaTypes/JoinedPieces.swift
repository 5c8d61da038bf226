/// Several pieces of mapped memory, of equal lengths.
public final class JoinedPieces: Sendable {
  public struct Piece: Sendable {
    /// An index of `buffers`.
    public let buffer: Int
    /// In bytes.
    public let offset: Int

    public init(buffer: Int, offset: Int) {
      self.buffer = buffer
      self.offset = offset
    }
  }

  /// The different buffers, which this object keeps.
  public let buffers: [Memory]
  public let pieces: [Piece]
  public let bytesEach: Int
  /// The files under the buffers, each once.
  public let files: [MappedFile]

  /// Checked by the caller: every piece is inside its buffer, which is mapped, and all offsets are equal modulo 4.
  public init(buffers: [Memory], pieces: [Piece], bytesEach: Int) {
    self.buffers = buffers
    self.pieces = pieces
    self.bytesEach = bytesEach
    var files: [MappedFile] = []
    for case .mapped(let window) in buffers.map(\.origin) { files.unite([window.file]) }
    self.files = files
  }

  public var byteCount: Int { pieces.count &* bytesEach }

  /// An offset that is as aligned as the least aligned piece, with the pieces' remainder.
  public var commonOffset: Int {
    let remainder = (pieces.first?.offset ?? 0) % 4
    let above = pieces.reduce(0) { $0 | ($1.offset &- remainder) }
    return remainder &+ (above & -above)
  }
}
