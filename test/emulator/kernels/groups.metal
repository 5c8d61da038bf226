// Barriers, atomics, fences, built-in arguments and matrices, used as they should be.
#include <metal_stdlib>
using namespace metal;

kernel void partial(device float* out [[buffer(0)]], uint lane [[thread_index_in_simdgroup]]) {
  if (lane % 3 == 0) return;
  out[lane] = simd_sum(1.0f) + 100.0f * simd_broadcast_first(float(lane)) + (simd_active_threads_mask().all() ? 1000.0f : 0.0f);
}

// Each simdgroup's sum, by way of a shuffle tree and threadgroup memory; a static array and an argument.
kernel void group_sum(device const float* in [[buffer(0)]], device float* out [[buffer(1)]], threadgroup float* parts [[threadgroup(0)]],
                      uint i [[thread_index_in_threadgroup]], ushort lane [[thread_index_in_simdgroup]],
                      ushort group [[simdgroup_index_in_threadgroup]], ushort groups [[simdgroups_per_threadgroup]],
                      uint position [[thread_position_in_grid]]) {
  threadgroup float total;
  float x = in[position];
  for (ushort delta = 16; delta > 0; delta /= 2) x += simd_shuffle_down(x, delta);
  if (lane == 0) parts[group] = x;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) {
    total = 0.0f;
    for (ushort g = 0; g < groups; ++g) total += parts[g];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[position] = total;
}

// simdgroup_barrier orders a simdgroup's own threadgroup memory.
kernel void simdgroup_tile(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float tile[128];
  for (uint round = 0; round < 3; ++round) {
    tile[i] = float(i + round);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    float x = tile[i - lane + 31 - lane];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    out[i] = x;
  }
}

kernel void counted(device atomic_uint* count [[buffer(0)]], device atomic_int* extremes [[buffer(1)]], device atomic_float* sum [[buffer(2)]],
                    device uint* order [[buffer(3)]], uint i [[thread_position_in_grid]]) {
  threadgroup atomic_uint local;
  uint n = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
  order[n] = i;
  atomic_fetch_max_explicit(&extremes[0], int(i), memory_order_relaxed);
  atomic_fetch_min_explicit(&extremes[1], -int(i), memory_order_relaxed);
  atomic_fetch_add_explicit(sum, 0.5f, memory_order_relaxed);
  atomic_store_explicit(&local, 0u, memory_order_relaxed);
  int expected = 12345;
  if (atomic_compare_exchange_weak_explicit(&extremes[2], &expected, 1, memory_order_relaxed, memory_order_relaxed)) atomic_exchange_explicit(&extremes[3], int(i), memory_order_relaxed);
}

// The last threadgroup to arrive reads what the others wrote: a fence and an atomic on both sides.
kernel void last_arrives(device atomic_uint* count [[buffer(0)]], coherent(device) device uint* parts [[buffer(1)]], device uint* out [[buffer(2)]],
                         uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup uint last;
  parts[group * 32 + i] = group;
  threadgroup_barrier(mem_flags::mem_device);
  if (i == 0) {
    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
    last = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed) == groups - 1 ? 1 : 0;
    if (last) atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  if (last) {
    uint sum = 0;
    for (uint g = 0; g < groups; ++g) sum += parts[g * 32 + i];
    out[i] = sum;
  }
}

// The same without the fences.
kernel void last_arrives_unfenced(device atomic_uint* count [[buffer(0)]], device uint* parts [[buffer(1)]], device uint* out [[buffer(2)]],
                                  uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup uint last;
  parts[group * 32 + i] = group;
  threadgroup_barrier(mem_flags::mem_device);
  if (i == 0) last = atomic_fetch_add_explicit(count, 1u, memory_order_relaxed) == groups - 1 ? 1 : 0;
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
  if (last) out[i] = parts[i] + parts[(groups - 1) * 32 + i];
}

kernel void builtins(device uint* out [[buffer(0)]], uint3 position [[thread_position_in_grid]], uint3 grid [[threads_per_grid]],
                     ushort3 local [[thread_position_in_threadgroup]], ushort3 size [[threads_per_threadgroup]],
                     ushort3 nominal [[dispatch_threads_per_threadgroup]], uint3 group [[threadgroup_position_in_grid]],
                     uint3 groups [[threadgroups_per_grid]], ushort index [[thread_index_in_threadgroup]],
                     ushort lane [[thread_index_in_simdgroup]], ushort simdgroup [[simdgroup_index_in_threadgroup]],
                     ushort simdgroups [[simdgroups_per_threadgroup]], ushort width [[threads_per_simdgroup]],
                     ushort quad [[quadgroup_index_in_threadgroup]], ushort quad_lane [[thread_index_in_quadgroup]]) {
  device uint* row = out + ((position.z * grid.y + position.y) * grid.x + position.x) * 16;
  row[0] = position.x; row[1] = position.y; row[2] = position.z; row[3] = local.x; row[4] = local.y; row[5] = local.z;
  row[6] = size.x * 10000 + size.y * 100 + size.z; row[7] = nominal.x * 10000 + nominal.y * 100 + nominal.z;
  row[8] = (group.z * groups.y + group.y) * groups.x + group.x; row[9] = index; row[10] = lane; row[11] = simdgroup;
  row[12] = simdgroups; row[13] = width; row[14] = quad; row[15] = quad_lane;
}

template <typename A, typename C> kernel void product(device const A* a [[buffer(0)]], device const A* b [[buffer(1)]], device C* c [[buffer(2)]],
                                                      device float* elements [[buffer(3)]], ushort lane [[thread_index_in_simdgroup]]) {
  simdgroup_matrix<A, 8, 8> ma, mb;
  simdgroup_matrix<C, 8, 8> mc;
  simdgroup_load(ma, a, 10);
  simdgroup_load(mb, b, 8, ulong2(0, 0), true);
  simdgroup_load(mc, c);
  simdgroup_multiply_accumulate(mc, ma, mb, mc);
  simdgroup_store(mc, c);
  elements[2 * lane] = float(ma.thread_elements()[0]);
  elements[2 * lane + 1] = float(ma.thread_elements()[1]);
}
template [[host_name("product_float")]] kernel void product<float, float>(device const float*, device const float*, device float*, device float*, ushort);
template [[host_name("product_half")]] [[kernel]] decltype(product<half, half>) product<half, half>;
typedef decltype(product<half, float>) product_t;
template [[host_name("product_mixed")]] kernel product_t product<half, float>;
template [[host_name("product_bfloat")]] [[kernel]] decltype(product<bfloat, float>) product<bfloat, float>;

kernel void diagonal(device float* out [[buffer(0)]]) {
  simdgroup_float8x8 d = simdgroup_float8x8(3.0f), f = make_filled_simdgroup_matrix<float, 8, 8>(2.0f);
  simdgroup_store(d, out, 16, ulong2(0, 0));
  simdgroup_store(f * d, out, 16, ulong2(8, 8), true);
}
