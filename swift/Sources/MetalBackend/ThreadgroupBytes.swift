import ShaderParams

/// Threadgroup memory that the host passes, as the heads of the kernels' files state it.
enum ThreadgroupBytes {
  /// recurrence_prefill.metal: keys, queries and decays, betas, values and outputs of a block of tokens.
  static func prefill(keyDim: Int, perKey: Bool) -> Int {
    4 * GDM_PREFILL_BLOCK * (2 * keyDim + (perKey ? keyDim : 1) + 1 + 2 * GDM_PREFILL_ROWS)
  }

  /// route.metal: the experts' keys.
  static func route(experts: Int) -> Int { 4 * experts }

  /// expert_sort.metal: rows of each expert, and of none.
  static func expertSort(experts: Int) -> Int { 4 * (experts + 1) }

  /// chunk_prepare.metal: a tile of keys or queries, and the two matrices.
  static func chunkPrepare(keyDim: Int) -> Int {
    4 * (GDM_CHUNK * keyDim + 2 * GDM_CHUNK * GDM_CHUNK)
  }

  /// chunk_scan.metal: a tile of keys or queries, values, the two matrices and, per key, the decays as diagonals.
  static func chunkScan(keyDim: Int, perKey: Bool) -> Int {
    4 * (GDM_CHUNK * (keyDim + GDM_CHUNK_ROWS) + 2 * GDM_CHUNK * GDM_CHUNK + (perKey ? keyDim / 8 * 64 : 0))
  }
}
