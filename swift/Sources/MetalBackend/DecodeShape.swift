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
