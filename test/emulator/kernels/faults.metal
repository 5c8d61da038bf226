// Kernels that each do one thing wrong, at the line that says "fault".
#include <metal_stdlib>
using namespace metal;

kernel void past_the_end(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 1.0f;  // fault
}

kernel void before_the_start(device const float* in [[buffer(1)]], device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = in[int(i) - 1];  // fault
}

template <typename T> inline T load_at(device const T* p, uint i) {
  return p[i];  // fault in inlined
}
kernel void inlined(device const half* in [[buffer(1)]], device half* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = load_at(in, i + 100);
}

kernel void writes_read_only(device float* in [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  in[i] = 2.0f;  // fault
}

kernel void misaligned(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  *(device float4*)(out + 1) = float4(float(i));  // fault
}

kernel void missing_barrier(device float* out [[buffer(0)]], device const float* in [[buffer(1)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[i] = in[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  tile[63 - i] = tile[i] + 1.0f;  // fault
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = tile[i];
}

kernel void wrong_flags(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  tile[i] = float(i);
  threadgroup_barrier(mem_flags::mem_device);
  out[i] = tile[63 - i];  // fault
}

kernel void lockstep(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float first[1];
  if (i == 0) first[0] = 3.0f;
  float sum = simd_sum(1.0f);
  out[i] = first[0] + sum;  // fault: a reduction orders no memory
}

kernel void device_race(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  out[i] = 1.0f;  // fault: thread 0 has been here
  out[(i + 1) % 64] += 1.0f;
}

kernel void groups_race(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  out[i] += 1.0f;  // fault
}

kernel void divergent_sites(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i < 32) threadgroup_barrier(mem_flags::mem_device);
  else threadgroup_barrier(mem_flags::mem_device);  // fault
  out[i] = 1.0f;
}

kernel void barrier_after_return(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i >= 40) return;
  threadgroup_barrier(mem_flags::mem_device);  // fault
  out[i] = 1.0f;
}

kernel void unequal_trips(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  for (uint k = 0; k < 2 + i / 32; ++k) threadgroup_barrier(mem_flags::mem_device);  // fault
  out[i] = 1.0f;
}

kernel void divergent_sum(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  float x = 0.0f;
  if (i % 2 == 0) x = simd_sum(1.0f);
  else x = simd_max(2.0f);  // fault
  out[i] = x;
}

kernel void barrier_in_one_lane(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i == 5) simdgroup_barrier(mem_flags::mem_none);  // fault
  threadgroup_barrier(mem_flags::mem_none);
  out[i] = 1.0f;
}

kernel void uneven_delta(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  out[i] = simd_shuffle_down(float(i), ushort(i % 2));  // fault
}

kernel void inactive_lane(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i == 7) return;
  out[i] = simd_shuffle(float(i), ushort(7));  // fault
}

kernel void matrix_without_lane(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  if (i == 31) return;
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_store(m, out, 8);  // fault
}

kernel void matrix_out_of_bounds(device float* out [[buffer(0)]]) {
  simdgroup_float8x8 m = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_store(m, out, 16);  // fault: rows 16 apart need 7 * 16 + 8 elements
}

kernel void never_written(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float tile[64];
  if (i < 32) tile[i] = 1.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = tile[i];  // fault
}

kernel void past_the_tile(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float tile[32];
  threadgroup float other[64];
  other[i] = 0.0f;
  (tile + i)[0] = 1.0f;  // fault
  out[i] = tile[i] + other[i];
}

kernel void past_the_argument(device float* out [[buffer(0)]], threadgroup half* tile [[threadgroup(0)]], uint i [[thread_index_in_threadgroup]]) {
  tile[i] = 1.0h;  // fault
  out[i] = float(tile[i]);
}

kernel void private_array(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float local[4] = {0.0f, 1.0f, 2.0f, 3.0f};
  out[i] = local[i];  // fault
}

kernel void component(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  float4 v = float4(1.0f);
  out[i] = v[i];  // fault
}

kernel void zero_divisor(device int* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 7 / int(i);  // fault
}

kernel void zero_vector_divisor(device int4* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = int4(7) % int4(1, 2, int(i), 3);  // fault
}

int endless(device int* p, int n) { return n == -1 ? 0 : p[n & 15] + endless(p, n + 1) * 2; }  // fault in recursion
kernel void recursion(device int* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = endless(out, int(i));
}

kernel void waits_for_another_group(device atomic_uint* flag [[buffer(0)]], uint group [[threadgroup_position_in_grid]]) {
  if (group == 0) {
    while (atomic_load_explicit(flag, memory_order_relaxed) == 0) {}  // fault
  } else {
    atomic_store_explicit(flag, 1u, memory_order_relaxed);
  }
}

constant bool HAS_BIAS [[function_constant(0)]];
kernel void null_pointer(device float* out [[buffer(0)]], device float* bias [[buffer(1), function_constant(HAS_BIAS)]], uint i [[thread_position_in_grid]]) {
  out[i] = bias[i];  // fault
}
