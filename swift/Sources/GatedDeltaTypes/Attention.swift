/// Causal attention of grouped heads over paged keys and values.
public final class Attention: Sendable {
  public let tokens, heads, keyHeads, headDim, pages, pageTokens: Int
  public let options: Options
  public let query, key, value: TensorView
  public let gate, queryNorm, keyNorm: TensorView?
  /// [pages, keyHeads, pageTokens, headDim], both of one dtype.
  public let keyPages, valuePages: TensorView
  public let out: TensorView

  public init(
    tokens: Int, heads: Int, keyHeads: Int, headDim: Int, pages: Int, pageTokens: Int, options: Options,
    query: TensorView, key: TensorView, value: TensorView, gate: TensorView?, queryNorm: TensorView?,
    keyNorm: TensorView?, keyPages: TensorView, valuePages: TensorView, out: TensorView
  ) {
    self.tokens = tokens
    self.heads = heads
    self.keyHeads = keyHeads
    self.headDim = headDim
    self.pages = pages
    self.pageTokens = pageTokens
    self.options = options
    self.query = query
    self.key = key
    self.value = value
    self.gate = gate
    self.queryNorm = queryNorm
    self.keyNorm = keyNorm
    self.keyPages = keyPages
    self.valuePages = valuePages
    self.out = out
  }
}

/// The keys and values of an attention's sequences, and the rotation of its rows. Validated: every page that a sequence
/// needs exists, and no page that a sequence writes to is in use elsewhere.
public final class PagedSequences: Sendable {
  /// For each sequence, the number of tokens before this op's.
  public let pastTokens: [Int32]
  /// `pagesPerSequence` entries per sequence, of which only those for its tokens are page numbers.
  public let pageTable: [Int32]
  public let pagesPerSequence: Int
  /// As the caller gave them; nil if each row has the position of its token.
  public let positions: [Int32]?
  /// For each row `rotaryDim` floats: the cosines of its angles, then the sines. Rows that belong to no sequence are
  /// left out.
  public let rotation: [Float]

  public init(
    pastTokens: [Int32], pageTable: [Int32], pagesPerSequence: Int, positions: [Int32]?, rotation: [Float]
  ) {
    self.pastTokens = pastTokens
    self.pageTable = pageTable
    self.pagesPerSequence = pagesPerSequence
    self.positions = positions
    self.rotation = rotation
  }
}
