import GatedDeltaTypes
import ShaderParams

/// How decode and commit spread a state over threads, by its dtype: states.h.
struct DecodeShape {
  /// Of a threadgroup.
  let threads: Int
  let rows: Int

  init(_ state: DType) {
    let lanes = state == .f32 ? GDM_DECODE_LANES_F32 : GDM_DECODE_LANES_16
    threads = state == .f32 ? GDM_DECODE_THREADS_F32 : GDM_DECODE_THREADS_16
    rows = threads / lanes * (state == .f32 ? GDM_DECODE_ROWS_F32 : GDM_DECODE_ROWS_16)
  }
}
