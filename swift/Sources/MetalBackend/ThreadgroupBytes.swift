import ShaderParams

/// Threadgroup memory that the host passes, as the heads of the kernels' files state it.
enum ThreadgroupBytes {
  /// recurrence_prefill.metal: keys, queries and decays, betas, values and outputs of a block of tokens.
  static func prefill(tokens: Int, keyDim: Int, perKey: Bool) -> Int {
    4 * tokens * (2 * keyDim + (perKey ? keyDim : 1) + 1 + 2 * GDM_PREFILL_ROWS)
  }

  /// conv.metal: columns of a threadgroup's channels; the least that can be passed if it updates four channels per thread.
  static func conv(isUpdate: Bool) -> Int { isUpdate ? 16 : 4 * GDM_CONV_THREADS * GDM_CONV_MAX_TAPS }

  /// projection.h: the chains of some sums of each simdgroup.
  static var projectTile: Int { 4 * GDM_PROJECT_THREADS / GDM_SIMD_LANES * GDM_PROJECT_MEMORY }

  /// packed_row.h: x, and the chains of every output.
  static func packedRow(outputs: Int) -> Int {
    16 * (GDM_PACKED_MEMORY + GDM_PROJECT_THREADS / GDM_PACKED_LANES * outputs * GDM_PROJECT_PITCH)
  }

  /// projection_block.h: columns of x and of weights.
  static var projectBlock: Int { 4 * 16 * (GDM_BLOCK_PITCH + GDM_BLOCK_WIDE) }

  /// projection_matrix.h: the same, once or twice.
  static func projectMatrix(halves: Bool) -> Int { (halves ? 2 : 1) * 4 * 2 * GDM_BLOCK_ROWS * GDM_MATRIX_PITCH }

  /// route.metal: the experts' keys.
  static func route(experts: Int) -> Int { 4 * experts }

  /// top_k.metal: each thread's first pair, and the pairs within the bound.
  static func topK(chosen: Int) -> Int { 8 * (GDM_TOP_K_THREADS + chosen * GDM_TOP_K_EACH) }

  /// expert_sort.metal: rows of each expert, and of none.
  static func expertSort(experts: Int) -> Int { 4 * (experts + 1) }
}
