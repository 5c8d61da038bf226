/// As many bytes of each of several places in mapped memory.
public final class JoinedPieces: Sendable {
  public struct Piece: Sendable {
    /// Of `buffers`.
    public let buffer: Int
    /// In bytes.
    public let offset: Int

    public init(buffer: Int, offset: Int) {
      self.buffer = buffer
      self.offset = offset
    }
  }

  /// The different buffers, which it keeps.
  public let buffers: [Memory]
  public let pieces: [Piece]
  public let bytesEach: Int
  /// The files under the buffers, each once.
  public let files: [MappedFile]

  /// Checked by the caller: every piece is inside its buffer, which is mapped, and all offsets leave the same remainder by 4.
  public init(buffers: [Memory], pieces: [Piece], bytesEach: Int) {
    self.buffers = buffers
    self.pieces = pieces
    self.bytesEach = bytesEach
    var files: [MappedFile] = []
    for case .mapped(let window) in buffers.map(\.origin) { files.unite([window.file]) }
    self.files = files
  }

  public var byteCount: Int { pieces.count &* bytesEach }

  /// An offset that is a multiple of no more than all of the pieces' are, with their remainder.
  public var commonOffset: Int {
    let remainder = (pieces.first?.offset ?? 0) % 4
    let above = pieces.reduce(0) { $0 | ($1.offset &- remainder) }
    return remainder &+ (above & -above)
  }
}
