import GatedDeltaTypes
import ShaderParams

/// How decode and commit spread a state over threads, by its dtype and its rows' length: states.h.
struct DecodeShape {
  /// Of a threadgroup.
  let threads: Int
  let rows: Int

  /// Rows of a lane group.
  let tileRows: Int

  /// `most`: the form of more rows that states of 16 bits have.
  init(_ state: DType, _ keyClass: Kernel.KeyClass, most: Bool = false) {
    let lanes = state == .f32 ? GDM_DECODE_LANES_F32 : GDM_DECODE_LANES_16
    threads = state == .f32 ? GDM_DECODE_THREADS_F32 : GDM_DECODE_THREADS_16
    let rows16 = (most ? GDM_DECODE_MOST_ROWS_16 : GDM_DECODE_ROWS_16) / (keyClass == .kany ? 4 : 1)
    tileRows = state == .f32 ? GDM_DECODE_ROWS_F32 : rows16
    rows = threads / lanes * tileRows
  }
}
