import ShaderParams

/// Threadgroup memory that the host passes, as the heads of the kernels' files state it.
enum ThreadgroupBytes {
  /// recurrence_prefill.metal: keys, queries and decays, betas, values and outputs of a block of tokens.
  static func prefill(keyDim: Int, perKey: Bool) -> Int {
    4 * GDM_PREFILL_BLOCK * (2 * keyDim + (perKey ? keyDim : 1) + 1 + 2 * GDM_PREFILL_ROWS)
  }

  /// chunk_prepare.metal: a tile of keys or queries, and the two matrices.
  static func chunkPrepare(keyDim: Int) -> Int {
    4 * (GDM_CHUNK * keyDim + 2 * GDM_CHUNK * GDM_CHUNK)
  }

  /// chunk_scan.metal: a tile of keys or queries, values, the two matrices and, per key, the decays as diagonals.
  static func chunkScan(keyDim: Int, perKey: Bool) -> Int {
    4 * (GDM_CHUNK * (keyDim + GDM_CHUNK_ROWS) + 2 * GDM_CHUNK * GDM_CHUNK + (perKey ? keyDim / 8 * 64 : 0))
  }
}
