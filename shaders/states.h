// Reading and writing state rows (rows.h) in a pool of slots.
//
// A state that is only moved, by an empty sequence or by a store of a call's initial state, is moved as bits: GPUs may
// flush subnormal numbers to zero in any operation on floats.
#ifndef GATED_DELTA_SHADERS_STATES_H
#define GATED_DELTA_SHADERS_STATES_H

#include "rows.h"

// The shape in which decode and commit spread a state of dtype S whose rows are G groups (rows.h): lanes of a row, rows
// of a lane group and, for 16-bit states, rows in the variant with more. 16-bit states with rows of up to 256 columns
// have a quarter as many, to save registers.
template <typename S, uint G> struct DecodeShape {
  enum : uint {
    lanes = GDM_DECODE_LANES_16,
    rows = GDM_DECODE_ROWS_16 / (G == 64 ? 4 : 1),
    most = GDM_DECODE_MOST_ROWS_16 / (G == 64 ? 4 : 1),
    threads = GDM_DECODE_THREADS_16
  };
};
template <uint G> struct DecodeShape<float, G> {
  enum : uint {
    lanes = GDM_DECODE_LANES_F32,
    rows = GDM_DECODE_ROWS_F32,
    most = GDM_DECODE_ROWS_F32,
    threads = GDM_DECODE_THREADS_F32
  };
};
// Value dims are multiples of 8: threadgroups of eight rows, or two, have no rows beyond the last.
template <typename S, uint G> METAL_FUNC uint decode_limit(uint limit) {
  return 8 % (DecodeShape<S, G>::threads / DecodeShape<S, G>::lanes * DecodeShape<S, G>::rows) == 0 ? 0 : limit;
}

// The states of an op, the same for every row of a threadgroup. `next` .. `end` are its extra stores.
template <typename S> struct States {
  device S* pool;
  device const S* staged;
  device S* snapshots;
  device const GDMStore* stores;
  uint next;
  uint end;
  uint slotRows;
  uint keyDim;
};

// Which rows of a slot a lane group holds: first, first + apart, .... Those from `limit` on do not exist: they are zeros,
// neither read (another simdgroup may be writing the rows that do exist) nor written. A limit of 0 means that all exist.
struct RowSet {
  uint first;
  uint apart;
  uint limit;
  uint lane;
};
// The row, or the last that exists: for reads of inputs, which are never written.
METAL_FUNC uint row_of(RowSet rows, uint r) {
  uint row = rows.first + r * rows.apart;
  return rows.limit == 0 ? row : min(row, rows.limit - 1);
}
METAL_FUNC bool row_exists(RowSet rows, uint r) {
  return rows.limit == 0 || rows.first + r * rows.apart < rows.limit;
}
// Elements from row `first` to row r.
METAL_FUNC ulong row_offset(RowSet rows, uint r, uint keyDim) {
  if (rows.limit == 0) return ulong(r * rows.apart * keyDim);
  return ulong(row_of(rows, r)) * keyDim;
}
METAL_FUNC uint row_base(RowSet rows) { return rows.limit == 0 ? rows.first : 0; }

// The rows before the op, in slot `slot` of the pool or of the staged copies; -1 is zeros. Asked for and used in two
// steps, as in rows.h.
template <typename S, uint L, uint G, uint R> struct RowsBits {
  RowBits<S, L, G> row[R];
};
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_ask(thread RowsBits<S, L, G, R>& bits, thread const States<S>& at, int slot, RowSet set) {
  if (slot == GDM_SLOT_NONE) {
    GDM_UNROLL for (uint r = 0; r < R; ++r) row_none(bits.row[r]);
    return;
  }
  device const S* from = slot >= 0 ? (device const S*)at.pool : at.staged;
  from += (ulong(slot >= 0 ? slot : GDM_SLOT_STAGED - slot) * at.slotRows + row_base(set)) * at.keyDim;
  GDM_UNROLL for (uint r = 0; r < R; ++r) {
    if (row_exists(set, r)) row_ask(bits.row[r], from + row_offset(set, r, at.keyDim), set.lane, at.keyDim);
    else row_none(bits.row[r]);
  }
}
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_widen(thread Rows<L, G, R>& rows, thread const RowsBits<S, L, G, R>& bits) {
  GDM_UNROLL for (uint r = 0; r < R; ++r) row_widen(rows.row[r], bits.row[r]);
}
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_read(thread Rows<L, G, R>& rows, thread const States<S>& at, int slot, RowSet set) {
  RowsBits<S, L, G, R> bits;
  states_ask(bits, at, slot, set);
  states_widen(rows, bits);
}

template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_write(thread const States<S>& at, device S* to, uint slot, thread const Rows<L, G, R>& rows,
                             RowSet set) {
  device S* base = to + (ulong(slot) * at.slotRows + row_base(set)) * at.keyDim;
  GDM_UNROLL for (uint r = 0; r < R; ++r) {
    if (row_exists(set, r)) row_store<S>(base + row_offset(set, r, at.keyDim), rows.row[r], set.lane, at.keyDim);
  }
}

// Copies rows from one slot to another, as bits; zeros are stored, so that nothing of a slot's old content survives.
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_move(thread const States<S>& at, int slot, device S* to, uint toSlot, RowSet set) {
  typedef typename Bits<S>::type4 U4;
  device const S* from = slot >= 0 ? (device const S*)at.pool : at.staged;
  ulong base = ulong(slot >= 0 ? slot : GDM_SLOT_STAGED - slot) * at.slotRows;
  for (uint r = 0; r < R; ++r) {
    if (!row_exists(set, r)) continue;
    ulong row = row_of(set, r);
    for (uint i = 0; i < G / L; ++i) {
      uint column = row_column<L>(set.lane, i);
      if (!row_holds<G>(column, at.keyDim)) continue;
      U4 bits = U4(0);
      if (slot != GDM_SLOT_NONE) bits = *(device const U4*)(from + (base + row) * at.keyDim + column);
      *(device U4*)(to + (ulong(toSlot) * at.slotRows + row) * at.keyDim + column) = bits;
    }
  }
}

// Makes the extra stores due after `tokens` tokens and advances past them. states_begin makes those due after none.
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_store(thread States<S>& at, int tokens, thread const Rows<L, G, R>& rows, RowSet set) {
  while (at.next < at.end && at.stores[at.next].tokens <= tokens) {
    int slot = at.stores[at.next].slot;
    if (slot >= 0) states_write(at, at.pool, uint(slot), rows, set);
    else states_write(at, at.snapshots, uint(-1 - slot), rows, set);
    ++at.next;
  }
}

// The part that needs no token: stores due after none and, for an empty sequence, the move to its write slot.
template <typename S, uint L, uint G, uint R>
METAL_FUNC void states_begin(thread States<S>& at, int slot, int writeSlot, bool empty, RowSet set) {
  while (HAS_STORES && at.next < at.end && at.stores[at.next].tokens <= 0) {
    int to = at.stores[at.next].slot;
    if (to >= 0) states_move<S, L, G, R>(at, slot, at.pool, uint(to), set);
    else states_move<S, L, G, R>(at, slot, at.snapshots, uint(-1 - to), set);
    ++at.next;
  }
  if (empty && writeSlot >= 0 && writeSlot != slot) states_move<S, L, G, R>(at, slot, at.pool, uint(writeSlot), set);
}

#endif
