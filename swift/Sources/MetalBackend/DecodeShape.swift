import GatedDeltaTypes
import ShaderParams

/// The number of threads and rows over which decode and commit spread a state, by its dtype and row length: states.h.
struct DecodeShape {
  /// Threads of a threadgroup.
  let threads: Int
  let rows: Int

  /// Rows of a lane group.
  let tileRows: Int

  /// `most`: the variant with more rows for 16-bit states.
  init(_ state: DType, _ keyClass: Kernel.KeyClass, most: Bool = false) {
    let lanes = state == .f32 ? GDM_DECODE_LANES_F32 : GDM_DECODE_LANES_16
    threads = state == .f32 ? GDM_DECODE_THREADS_F32 : GDM_DECODE_THREADS_16
    let rows16 = (most ? GDM_DECODE_MOST_ROWS_16 : GDM_DECODE_ROWS_16) / (keyClass == .kany ? 4 : 1)
    tileRows = state == .f32 ? GDM_DECODE_ROWS_F32 : rows16
    rows = threads / lanes * tileRows
  }
}

/// The spread of prefill: prefill.h. If threadgroups are few, each waits for its own steps, so blocks are longer and outputs
/// are stored at once. If they are many, several share a core, and each has two rows per lane group.
struct PrefillShape {
  /// Rows of a lane group.
  let tileRows: Int
  let outAtOnce: Bool
  /// Tokens of a block.
  let block: Int
  /// Threads of a threadgroup.
  let threads: Int

  init(_ keyClass: Kernel.KeyClass, isFew: Bool) {
    tileRows = keyClass == .kany || isFew ? 1 : 2
    outAtOnce = isFew
    block = isFew && keyClass != .kany ? 2 * GDM_PREFILL_BLOCK : GDM_PREFILL_BLOCK
    threads = GDM_PREFILL_ROWS * GDM_PREFILL_LANES / tileRows
  }
}
