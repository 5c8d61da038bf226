/** Wrong values of arguments that several ops share. */
import type { DType, Device } from "../../../lib/index.ts";
import type { Arguments } from "../arguments.ts";
import { gapped, makers } from "./kit.ts";
import type { Wrong } from "./kit.ts";

/** Lists of wrong arguments, for the ops that have such arguments. */
export function sharedArguments(device: Device) {
  const { tensor } = makers(device);

  /** @param rows the dimensions before the columns. */
  const quantised = (rows: readonly number[], others: (columns: number) => Arguments): Wrong[] => {
    const sound = (columns = 128, words = columns / 8, groups = columns / 64): Arguments => ({
      ...others(columns),
      weight: tensor([...rows, words], "u32"),
      scales: tensor([...rows, groups]),
      biases: tensor([...rows, groups]),
    });
    return [
      [{ ...sound(), scales: undefined, biases: undefined }, "invalid-argument", "scales"],
      [{ ...sound(), biases: undefined }, "invalid-argument", "biases"],
      [{ ...sound(), scales: undefined }, "invalid-argument", "scales"],
      [{ ...sound(), weight: tensor([...rows, 128]) }, "dtype", "weight"],
      [{ ...sound(), weight: tensor([...rows, 16], "i32") }, "dtype", "weight"],
      [{ ...sound(), weight: tensor([...rows, 16, 1], "u32") }, "shape", "weight"],
      [{ ...sound(), weight: tensor([...rows.with(-1, rows.at(-1)! + 1), 16], "u32") }, "shape", "scales"],
      [{ ...sound(), weight: gapped(tensor([...rows, 16], "u32")) }, "shape", "weight"],
      // 1, 7 and 9 bits; a fractional number of bits; groups of 16, 256 and 128/3.
      ...[4, 28, 36, 15, 0].map((words): Wrong => [sound(128, words), "shape", "weight"]),
      ...[8, 3, 0].map((groups): Wrong => [sound(128, 16, groups), "shape", "scales"]),
      [sound(256, 32, 1), "shape", "scales"],
      [sound(96, 12, 1), "shape", "scales"],
      [sound(16, 2, 1), "shape", "scales"],
      [sound(0, 0, 0), "shape", "scales"],
      [{ ...sound(), scales: tensor([...rows.with(-1, rows.at(-1)! + 1), 2]) }, "shape", "scales"],
      [{ ...sound(), scales: tensor([...rows, 2], "u32") }, "dtype", "scales"],
      [{ ...sound(), scales: tensor([...rows, 2], "bf16") }, "dtype", "biases"],
      [{ ...sound(), scales: tensor([20]) }, "shape", "scales"],
      [{ ...sound(), scales: gapped(tensor([...rows, 2])) }, "shape", "scales"],
      [{ ...sound(), biases: tensor([...rows, 4]) }, "shape", "biases"],
      [{ ...sound(), biases: tensor([...rows, 2], "i32") }, "dtype", "biases"],
      [{ ...sound(), biases: gapped(tensor([...rows, 2])) }, "shape", "biases"],
      // 4 bits in groups of 64, under another name.
      [{ ...sound(), weightFormat: "affine" }, "invalid-argument", "weightFormat"],
      [{ ...sound(), weightFormat: 11 }, "invalid-argument", "weightFormat"],
      [{ ...sound(), weightFormat: "bf16" }, "dtype", "weight"],
      [{ ...sound(), weightFormat: "affine5-g64" }, "shape", "weight"],
      [{ ...sound(), weightFormat: "affine4-g32" }, "shape", "scales"],
      [{ ...sound(), weightFormat: "affine4-g64", scales: undefined, biases: undefined }, "invalid-argument", "scales"],
      [{ ...sound(), weightFormat: "affine4-g64", biases: undefined }, "invalid-argument", "biases"],
      [{ ...sound(96, 12, 1), weightFormat: "affine4-g64" }, "shape", "weight"],
      [{ ...sound(), weight: tensor([...rows, 128]), weightFormat: "f32" }, "invalid-argument", "scales"],
      [{ ...sound(0, 0, 0), weightFormat: "affine4-g64" }, "shape", "weight"],
    ];
  };

  /**
   * Weights in ggml's types; 256 elements of Q4_K are 144 bytes.
   *
   * @param rows the dimensions before the columns.
   */
  const blocks = (rows: readonly number[], others: (columns: number) => Arguments): Wrong[] => {
    const sound = (columns = 512, bytes = 288, weightFormat = "q4_k"): Arguments => ({
      ...others(columns),
      weight: tensor([...rows, bytes], "u8"),
      weightFormat,
    });
    return [
      [{ ...sound(), weightFormat: undefined }, "invalid-argument", "weightFormat"],
      [{ ...sound(), scales: tensor([...rows, 2]) }, "invalid-argument", "scales"],
      [{ ...sound(), biases: tensor([...rows, 2]) }, "invalid-argument", "biases"],
      [{ ...sound(), scales: tensor([...rows, 2]), biases: tensor([...rows, 2]), weightFormat: undefined }, "dtype", "weight"],
      [{ ...sound(), weight: tensor([...rows, 72], "u32") }, "dtype", "weight"],
      [{ ...sound(), weight: tensor([...rows, 512]) }, "dtype", "weight"],
      [{ ...sound(), weight: gapped(tensor([...rows, 288], "u8")) }, "shape", "weight"],
      [{ ...sound(), weightFormat: "affine4-g64" }, "dtype", "weight"],
      [{ ...sound(), weightFormat: "f32" }, "dtype", "weight"],
      [{ ...sound(), weightFormat: "q6_k" }, "shape", "weight"],
      [{ ...sound(), weightFormat: "mxfp4" }, "dtype", "weight"],
      [{ ...sound(), weightFormat: "mxfp6" }, "invalid-argument", "weightFormat"],
      [sound(512, 287), "shape", "weight"],
      [sound(384, 216), "shape", "weight"],
      [sound(0, 0), "shape", "weight"],
      [sound(48, 27, "q4_0"), "shape", "weight"],
    ];
  };

  /**
   * Weights in MLX's micro-scaled forms; 128 elements of nvfp4 are 16 words and 8 scales.
   *
   * @param rows the dimensions before the columns.
   */
  const micro = (rows: readonly number[], others: (columns: number) => Arguments): Wrong[] => {
    const sound = (columns = 128, words = 16, groups = 8, weightFormat = "nvfp4"): Arguments => ({
      ...others(columns),
      weight: tensor([...rows, words], "u32"),
      scales: tensor([...rows, groups], "u8"),
      weightFormat,
    });
    return [
      [{ ...sound(), weightFormat: undefined }, "invalid-argument", "weightFormat"],
      [{ ...sound(), weightFormat: "mxfp4" }, "shape", "scales"],
      [{ ...sound(), weightFormat: "mxfp8" }, "shape", "weight"],
      [{ ...sound(), weightFormat: "affine4-g32" }, "invalid-argument", "biases"],
      [{ ...sound(), weightFormat: "gguf-mxfp4" }, "dtype", "weight"],
      [{ ...sound(), scales: undefined }, "invalid-argument", "scales"],
      [{ ...sound(), scales: tensor([...rows, 8]) }, "dtype", "scales"],
      [{ ...sound(), biases: tensor([...rows, 8], "u8") }, "invalid-argument", "biases"],
      [{ ...sound(), weight: tensor([...rows, 64], "u8") }, "dtype", "weight"],
      [{ ...sound(), weight: gapped(tensor([...rows, 16], "u32")) }, "shape", "weight"],
      [{ ...sound(), scales: gapped(tensor([...rows, 8], "u8")) }, "shape", "scales"],
      [sound(128, 17), "shape", "weight"],
      [sound(128, 16, 4), "shape", "scales"],
      [sound(48, 6, 2, "mxfp4"), "shape", "weight"],
      [sound(24, 3, 2), "shape", "weight"],
      [sound(0, 0, 0), "shape", "weight"],
    ];
  };

  const slotCounts: Wrong[] = [
    [{ readSlots: [0] }, "shape", "readSlots"],
    [{ writeSlots: [0, 1, 2] }, "shape", "writeSlots"],
    [{ readSlots: tensor([3], "i32") }, "shape", "readSlots"],
  ];

  const slots: Wrong[] = [
    [{ readSlots: [0, 3] }, "range", "readSlots[1]"],
    [{ readSlots: [-2, 0] }, "range", "readSlots[0]"],
    [{ writeSlots: [0, 0] }, "overlap", "writeSlots[1]"],
    [{ writeSlots: [0, 2 ** 31 - 1] }, "range", "writeSlots[1]"],
    [{ readSlots: [0, 2 ** 31] }, "range", "readSlots[1]"],
    [{ readSlots: [0, 0.5] }, "invalid-argument", "readSlots[1]"],
    [{ readSlots: [0, NaN] }, "invalid-argument", "readSlots[1]"],
    [{ readSlots: ["0", 1] }, "invalid-argument", "readSlots[0]"],
    [{ readSlots: [, 1] }, "invalid-argument", "readSlots[0]"],
    [{ readSlots: [0n, 1n] }, "invalid-argument", "readSlots[0]"],
    [{ readSlots: "01" }, "invalid-argument", "readSlots"],
    [{ readSlots: null }, "invalid-argument", "readSlots"],
    [{ readSlots: { length: 2, 0: 0, 1: 1 } }, "invalid-argument", "readSlots"],
    [{ readSlots: new Uint32Array([0, 1]) }, "invalid-argument", "readSlots"],
    [{ readSlots: Object.create(Int32Array.prototype) }, "invalid-argument", "readSlots"],
    [{ readSlots: tensor([2]) }, "dtype", "readSlots"],
    [{ readSlots: tensor([1, 2], "i32") }, "shape", "readSlots"],
    [{ writeSlots: tensor([2], "i32") }, "overlap", "writeSlots[1]"],
    [{ readSlots: Int32Array.of(0, 3) }, "range", "readSlots[1]"],
  ];

  const ragged: Wrong[] = [
    ...slotCounts,
    ...slots,
    [{ cuSeqlens: [] }, "shape", "cuSeqlens"],
    [{ cuSeqlens: [0, 5] }, "shape", "readSlots"],
    [{ cuSeqlens: undefined }, "invalid-argument", "cuSeqlens"],
    [{ cuSeqlens: [1, 2, 5] }, "range", "cuSeqlens[0]"],
    [{ cuSeqlens: [0, 3, 2] }, "range", "cuSeqlens[2]"],
    [{ cuSeqlens: [0, 2, 6] }, "range", "cuSeqlens[2]"],
    [{ cuSeqlens: [0, -1, 5] }, "range", "cuSeqlens[1]"],
    [{ cuSeqlens: [0, 2.5, 5] }, "invalid-argument", "cuSeqlens[1]"],
    [{ state: undefined }, "range", "readSlots[0]"],
  ];

  /** Wrong snapshots and checkpoints; `slot` is the shape of one of the op's slots. */
  const kept = (slot: readonly number[], other: DType): Wrong[] => [
    [{ source: tensor([3, 1, ...slot.slice(1)]) }, "shape", "source"],
    [{ source: tensor([3, ...slot], other) }, "dtype", "source"],
    [{ source: tensor([3, ...slot].slice(1)) }, "shape", "source"],
    [{ source: 3 }, "invalid-argument", "source"],
    [({ state }) => ({ source: state }), "overlap", "state"],
    [{ snapshots: tensor([2, 3, ...slot]) }, "shape", "snapshots"],
    [{ snapshots: tensor([2, ...slot]) }, "shape", "snapshots"],
    [{ snapshots: tensor([2, 2, ...slot], other) }, "dtype", "snapshots"],
    [{ snapshotSlots: [2, 2, 2] }, "shape", "snapshotSlots"],
    [{ snapshotSlots: [2, 3] }, "range", "snapshotSlots[1]"],
    [{ snapshotSlots: [-2, 2] }, "range", "snapshotSlots[0]"],
    [{ snapshotSlots: [2, 0] }, "overlap", "snapshotSlots[1]"],
    [{ snapshotSlots: [2, 2] }, "overlap", "snapshotSlots[1]"],
    [{ snapshotSlots: "22" }, "invalid-argument", "snapshotSlots"],
    [{ snapshots: tensor([3, 2, ...slot]), snapshotSlots: [2, -1] }, "shape", "snapshotSlots"],
    [{ checkpoints: 3 }, "invalid-argument", "checkpoints"],
    [{ checkpoints: { offsets: [0, 1, 1], tokens: [1] } }, "invalid-argument", "checkpoints.slots"],
    [{ checkpoints: { offsets: [0, 1], tokens: [1], slots: [2] } }, "shape", "checkpoints.offsets"],
    [{ checkpoints: { offsets: [0, 1, 1], tokens: [1, 1], slots: [2] } }, "shape", "checkpoints.slots"],
    [{ checkpoints: { offsets: [0, 1, 1], tokens: [3], slots: [2] } }, "range", "checkpoints.tokens[0]"],
    [{ checkpoints: { offsets: [0, 1, 1], tokens: [-1], slots: [2] } }, "range", "checkpoints.tokens[0]"],
    [{ checkpoints: { offsets: [0, 2, 1], tokens: [1], slots: [2] } }, "range", "checkpoints.offsets[2]"],
    [{ checkpoints: { offsets: [0, 0, 2], tokens: [1], slots: [2] } }, "range", "checkpoints.offsets[2]"],
    [{ checkpoints: { offsets: [0, 1, 1], tokens: [1], slots: [3] } }, "range", "checkpoints.slots[0]"],
    [{ checkpoints: { offsets: [0, 1, 1], tokens: [1], slots: [-1] } }, "range", "checkpoints.slots[0]"],
    [{ checkpoints: { offsets: [0, 1, 1], tokens: [1], slots: [1] } }, "overlap", "checkpoints.slots[0]"],
    [{ checkpoints: { offsets: [0, 1, 2], tokens: [1, 1], slots: [2, 2] } }, "overlap", "checkpoints.slots[1]"],
  ];

  const counts: Wrong[] = [
    [{ counts: undefined }, "invalid-argument", "counts"],
    [{ counts: [1] }, "shape", "counts"],
    [{ counts: [1, 4] }, "range", "counts[1]"],
    [{ counts: [-1, 1] }, "range", "counts[0]"],
    [{ counts: [0.5, 1] }, "invalid-argument", "counts[0]"],
  ];

  const ids: Wrong[] = [
    [{ ids: undefined }, "invalid-argument", "ids"],
    [{ ids: [0] }, "shape", "ids"],
    [{ ids: [0, 3] }, "range", "ids[1]"],
    [{ ids: [-2, 0] }, "range", "ids[0]"],
    [{ ids: [0, 0.5] }, "invalid-argument", "ids[1]"],
    [{ rsHead: 2 }, "range", "rsHead"],
    [{ rsHead: -1 }, "range", "rsHead"],
    [{ rsHead: 0.5 }, "invalid-argument", "rsHead"],
    [{ rsHead: undefined }, "invalid-argument", "rsHead"],
  ];

  return { quantised, blocks, micro, slots, slotCounts, ragged, kept, counts, ids };
}
