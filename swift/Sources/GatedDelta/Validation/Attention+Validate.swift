import CGatedDelta
import GatedDeltaTypes

extension gd_attention: OpDescriptor {
  func validate(_ validator: inout Validator) throws(Failure) {
    var options = try Attention.Options(self)
    let rows = try validator.dims(self.query, "query", "[tokens, heads, headDim]", rank: 3)
    let (tokens, heads, headDim) = (rows[0], rows[1], rows[2])
    try Check.headDim(headDim, "headDim", of: "query")
    let keyRows = try validator.dims(self.key, "key", "[tokens, kvHeads, headDim]", rank: 3)
    let keyHeads = keyRows[1]
    guard keyHeads >= 1, heads >= 1, heads % keyHeads == 0 else {
      throw Failure(
        .shape, argument: "key", expected: "a number of kvHeads that divides heads, \(heads)", received: "\(keyHeads)")
    }
    try Self.checkRotary(options.rotaryDim, headDim)
    options.scale = try Check.scale(scale, keyDim: headDim)

    let keyDims = Dims(tokens, keyHeads, headDim)
    let query = try validator.input(self.query, "query", rows, "[tokens, heads, headDim]", .floats)
    let activation = DTypes(query.dtype)
    let key = try validator.input(self.key, "key", keyDims, "[tokens, kvHeads, headDim]", activation)
    let value = try validator.input(self.value, "value", keyDims, "[tokens, kvHeads, headDim]", activation)
    let gate: TensorView? =
      self.gate.isAbsent
      ? nil : try validator.input(self.gate, "gate", rows, "[tokens, heads, headDim]", activation)
    let queryNorm = try validator.headNorm(query_norm, "queryNorm", headDim)
    let keyNorm = try validator.headNorm(key_norm, "keyNorm", headDim)

    let pages = try validator.dims(key_pages, "keyPages", "[pages, kvHeads, pageTokens, headDim]", rank: 4)
    let pageTokens = pages[2]
    guard pageTokens >= 1 else {
      throw Failure(.shape, argument: "keyPages", expected: "pages of at least 1 token", received: pages.text)
    }
    let keyPages = try validator.pages(key_pages, "keyPages", pages[0], keyHeads, pageTokens, headDim, .floats)
    let valuePages = try validator.pages(
      value_pages, "valuePages", pages[0], keyHeads, pageTokens, headDim, DTypes(keyPages.dtype))
    let out = try validator.output(self.out, "out", rows, "[tokens, heads, headDim]", .orF32(query.dtype))
    try validator.checkOverlaps()

    let recipe = try validator.pagedSequences(
      self, tokens: tokens, pages: pages[0],
      PageRecipe.Layout(
        pages: Int(pages[0]), pageTokens: Int(pageTokens), rotaryDim: options.rotaryDim, theta: options.ropeTheta))
    let batch = try validator.resolve(recipe)
    let op = Op.attention(
      Attention(
        tokens: Int(tokens), heads: Int(heads), keyHeads: Int(keyHeads), headDim: Int(headDim), pages: Int(pages[0]),
        pageTokens: Int(pageTokens), options: options, query: query, key: key, value: value, gate: gate,
        queryNorm: queryNorm, keyNorm: keyNorm, keyPages: keyPages, valuePages: valuePages, out: out),
      batch.sequences)
    try validator.finish(op, recipe, batch, isEmpty: recipe.count == 0 || tokens == 0)
  }

  private static func checkRotary(_ value: Int, _ headDim: UInt32) throws(Failure) {
    guard value % 2 == 0, value <= Int(headDim) else {
      throw Failure(
        .invalidArgument, argument: "rotaryDim", expected: "an even number of at most headDim, \(headDim)",
        received: "\(value)")
    }
  }
}

extension Validator {
  fileprivate mutating func headNorm(
    _ tensor: gd_tensor, _ name: StaticString, _ headDim: UInt32
  ) throws(Failure) -> TensorView? {
    tensor.isAbsent ? nil : try input(tensor, name, Dims(headDim), "[headDim]", .floats, .block)
  }

  fileprivate mutating func pages(
    _ tensor: gd_tensor, _ name: StaticString, _ pages: UInt32, _ keyHeads: UInt32, _ pageTokens: UInt32,
    _ headDim: UInt32, _ dtypes: DTypes
  ) throws(Failure) -> TensorView {
    try output(
      tensor, name, Dims(pages, keyHeads, pageTokens, headDim), "[pages, kvHeads, pageTokens, headDim]", dtypes,
      .vectorBlock, as: Shape(pages, keyHeads, UInt64(pageTokens) &* UInt64(headDim)))
  }

  fileprivate mutating func pagedSequences(
    _ given: gd_attention, tokens: UInt32, pages: UInt32, _ layout: PageRecipe.Layout
  ) throws(Failure) -> SequenceRecipe {
    let sequences = try given.sequences()
    let starts = try index(given.cu_seqlens, "cuSeqlens", count: sequences &+ 1)
    let past = try requiredIndex(given.past_tokens, "pastTokens", count: sequences, "numbers, one a sequence")
    let entries = given.page_table.count
    guard entries <= UInt64(PageRecipe.limit) else {
      throw Failure(
        .range, argument: "pageTable", expected: "at most \(PageRecipe.limit) entries", received: "\(entries)")
    }
    guard sequences == 0 ? entries == 0 : entries % UInt64(sequences) == 0 else {
      throw Failure(
        .shape, argument: "pageTable", expected: "as many entries for each of \(sequences) sequences",
        received: "\(entries)")
    }
    let table =
      given.page_table.isAbsent && entries == 0
      ? nil : try index(given.page_table, "pageTable", count: Int(entries), "page numbers")
    guard let table else { throw Validator.missing("pageTable") }
    let positions = try index(given.positions, "positions", count: Int(tokens), "positions, one a token")
    var recipe = SequenceRecipe(
      count: sequences, rows: .ragged(tokens: Int(tokens), cuSeqlens: starts), slots: 0, hasPool: false)
    recipe.pages = PageRecipe(
      layout: layout, pagesPerSequence: sequences == 0 ? 0 : Int(entries) / sequences, pastTokens: past,
      pageTable: table, positions: positions)
    return recipe
  }
}

extension gd_attention {
  /// The number of sequences. Without `cuSeqlens` there is one of all rows.
  fileprivate func sequences() throws(Failure) -> Int {
    guard cu_seqlens.isAbsent else {
      guard cu_seqlens.count >= 1 else {
        throw Failure(.shape, argument: "cuSeqlens", expected: "sequences + 1 offsets", received: "none")
      }
      try Check.sequences(cu_seqlens.count &- 1, "cuSeqlens")
      return Int(cu_seqlens.count) &- 1
    }
    guard past_tokens.count <= 1 else {
      throw Failure(
        .invalidArgument, argument: "cuSeqlens",
        expected: "\(past_tokens.count &+ 1) offsets for the \(past_tokens.count) sequences of pastTokens",
        received: "none, which means one sequence")
    }
    return 1
  }
}
