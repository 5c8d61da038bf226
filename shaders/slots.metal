// Slots of a state pool, copied and zeroed whole.
//
// pool [slots, slotUnits] U, staged [copies, slotUnits] U; U is 2, 4 or 16 bytes: the widest unit that divides a slot's
// bytes and the tensors' offsets. The kernels move bits and know no dtype.
//
// gd_slots_gather. staged[i] = pool[slots[i]], slots[i] >= 0: copies of slots that one sequence reads and another
// writes, taken before an op writes any.
// gd_slots_copy. pool[writeSlots[i]] = pool or staged slot readSlots[i] (GDM_SLOT_*; zeros are stored, so a NaN cannot
// survive); a write slot of -1 is skipped. Written slots are distinct; one that another entry reads is staged first.
//
// Grid of both: (ceil(slotUnits / GDM_COPY_THREADS), entries) threadgroups of GDM_COPY_THREADS. No function constants.
#include "storage.h"

template <typename U>
[[max_total_threads_per_threadgroup(GDM_COPY_THREADS)]]
kernel void gd_slots_gather(device const U* pool [[buffer(0)]],
                            device U* staged [[buffer(1)]],
                            device const int* slots [[buffer(2)]],
                            constant GDMSlots& params [[buffer(3)]],
                            uint2 group [[threadgroup_position_in_grid]],
                            uint index [[thread_index_in_threadgroup]]) {
  uint unit = group.x * GDM_COPY_THREADS + index;
  if (unit >= params.slotUnits) return;
  staged[ulong(group.y) * params.slotUnits + unit] = pool[ulong(slots[group.y]) * params.slotUnits + unit];
}

template <typename U>
[[max_total_threads_per_threadgroup(GDM_COPY_THREADS)]]
kernel void gd_slots_copy(device U* pool [[buffer(0)]],
                          device const U* staged [[buffer(1)]],
                          device const int* readSlots [[buffer(2)]],
                          device const int* writeSlots [[buffer(3)]],
                          constant GDMSlots& params [[buffer(4)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint index [[thread_index_in_threadgroup]]) {
  uint unit = group.x * GDM_COPY_THREADS + index;
  int from = readSlots[group.y];
  int to = writeSlots[group.y];
  if (unit >= params.slotUnits || to < 0) return;
  U content = U(0);
  if (from >= 0) content = pool[ulong(from) * params.slotUnits + unit];
  if (from < GDM_SLOT_NONE) content = staged[ulong(GDM_SLOT_STAGED - from) * params.slotUnits + unit];
  pool[ulong(to) * params.slotUnits + unit] = content;
}

// Names: gd_slots_gather_<unit>, gd_slots_copy_<unit>.
GDM_KERNEL("gd_slots_gather_u16", gd_slots_gather, ushort)
GDM_KERNEL("gd_slots_gather_u32", gd_slots_gather, uint)
GDM_KERNEL("gd_slots_gather_u128", gd_slots_gather, uint4)
GDM_KERNEL("gd_slots_copy_u16", gd_slots_copy, ushort)
GDM_KERNEL("gd_slots_copy_u32", gd_slots_copy, uint)
GDM_KERNEL("gd_slots_copy_u128", gd_slots_copy, uint4)
