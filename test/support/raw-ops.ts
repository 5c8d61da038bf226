/** The C functions, and a sound descriptor of every op, to be broken one field at a time. */
import { expect } from "bun:test";
import { constants as c, symbols } from "../../lib/native/layout.ts";
import { library } from "../../lib/native/library.ts";
import { Descriptor } from "./raw-descriptor.ts";
import type { Fields } from "./raw-descriptor.ts";

/** The library, untyped. */
export const native = library() as unknown as Record<keyof typeof symbols, (...args: unknown[]) => number>;
/** Eight bytes for a result. */
export const word = () => new Uint32Array(new ArrayBuffer(8));
/** The u64 in eight bytes. */
export const wide = (words: Uint32Array) => words[0]! + words[1]! * 2 ** 32;
/** A text of the last failure. */
export const lastError = (which: number) => String(library().gd_last_error(which));

/** Opens a CPU device of one thread. */
export function openDevice(): number {
  const out = word();
  const options = new Descriptor("gd_device_options").set("backend", c.GD_BACKEND_CPU).set("threads", 1);
  expect(native.gd_device_open(options.bytes, out)).toBe(c.GD_OK);
  return wide(out);
}

/** The device of the sound descriptors. Test files share it, so none of them closes it. */
export const device = openDevice();

/** Makes a buffer. */
export function createBuffer(bytes: number, of = device): number {
  const [handle, pointer] = [word(), word()];
  expect(native.gd_buffer_create(of, bytes, handle, pointer)).toBe(c.GD_OK);
  return wide(handle);
}

/** Length of every buffer in the sound descriptors. */
export const bufferBytes = 16384;
/** One buffer a tensor argument, so that nothing overlaps. */
const buffers = new Map<string, number>();
export function bufferFor(argument: string): number {
  let handle = buffers.get(argument);
  if (handle === undefined) buffers.set(argument, (handle = createBuffer(bufferBytes)));
  return handle;
}

/** Index data for which zeros are sound. */
const zeros = ["cu_seqlens", "counts", "checkpoint_offsets", "checkpoint_tokens"];

/** A sound descriptor of an op: plain numbers, then f32 tensors in buffers of their own, then i32 index data. */
function sound(name: string, numbers: Fields, tensors: readonly string[], indices: Fields): Descriptor {
  const descriptor = new Descriptor(name);
  for (const [field, value] of Object.entries(numbers)) descriptor.set(field, value);
  for (const argument of tensors)
    descriptor.set(`${argument}.buffer`, bufferFor(argument)).set(`${argument}.dtype`, c.GD_F32);
  for (const [argument, count] of Object.entries(indices)) {
    // Zeros are sound cuSeqlens of empty sequences, and -1 a sound slot, so one buffer of each serves all.
    descriptor
      .set(`${argument}.buffer`, zeros.includes(argument) ? bufferFor("zeros") : minusOnes)
      .set(`${argument}.count`, count);
  }
  return descriptor;
}

/** Kept reachable: the device borrows it. */
const minusOneMemory = new Int32Array(new ArrayBuffer(bufferBytes)).fill(-1);
const minusOnes = (() => {
  const handle = word();
  expect(native.gd_buffer_wrap(device, minusOneMemory, bufferBytes, handle)).toBe(c.GD_OK);
  return wide(handle);
})();

const recurrence = {
  key_heads: 1,
  value_heads: 2,
  key_dim: 8,
  value_dim: 8,
  slots: 2,
  gate_form: c.GD_GATE_RAW,
  gate_dims: c.GD_GATE_PER_HEAD,
  beta_form: c.GD_BETA_GIVEN,
  head_map: c.GD_HEADS_BLOCK,
  qk_norm: c.GD_NORM_L2,
  qk_norm_eps: 1e-6,
  scale: 1,
  gate_bound: 0,
};

/** Checkpoints. Sequences without tokens have none, so that no slot is written twice. */
const kept = { source_slots: 2, snapshot_count: 2 };
const indices = { cu_seqlens: 3, read_slots: 2, write_slots: 2 };
const keptIndices = { snapshot_slots: 4, checkpoint_offsets: 3, checkpoint_tokens: 2, checkpoint_slots: 2 };
const net = { sequences: 2, tokens: 2, key_heads: 1, value_heads: 2, dim: 8, gate_dims: c.GD_GATE_PER_HEAD, snapshot_count: 2 };
const netTensors = ["query", "key", "value", "gate", "beta", "snapshots", "out"];

/** A sound descriptor of each op, by the function that encodes it. */
export const ops: Record<string, Descriptor> = {
  gd_encode_gated_delta: sound(
    "gd_gated_delta",
    { ...recurrence, tokens: 4, sequences: 2, algorithm: c.GD_ALGORITHM_AUTO, ...kept },
    [
      "query", "key", "value", "gate", "beta", "a_log", "dt_bias", "state", "out", "source", "snapshots",
      "record_key", "record_delta", "record_decay",
    ],
    { ...indices, ...keptIndices },
  ),
  gd_encode_causal_conv1d: sound(
    "gd_causal_conv1d",
    { tokens: 4, sequences: 2, channels: 8, width: 4, slots: 2, activation: c.GD_ACTIVATION_SILU, ...kept },
    ["x", "weight", "bias", "state", "out", "source", "snapshots"],
    { ...indices, ...keptIndices },
  ),
  gd_encode_gated_rms_norm: sound(
    "gd_gated_rms_norm",
    { tokens: 4, heads: 2, dim: 8, activation: c.GD_ACTIVATION_SILU, order: c.GD_NORM_THEN_GATE, eps: 1e-6 },
    ["x", "z", "weight", "out"],
    {},
  ),
  gd_encode_gated_delta_step: sound(
    "gd_gated_delta_step",
    {
      ...recurrence,
      sequences: 2,
      width: 4,
      conv_activation: c.GD_ACTIVATION_SILU,
      norm_activation: c.GD_ACTIVATION_SILU,
      norm_order: c.GD_NORM_THEN_GATE,
      norm_eps: 1e-6,
    },
    [
      "x",
      "conv_weight",
      "conv_bias",
      "conv_state",
      "gate",
      "beta",
      "a_log",
      "dt_bias",
      "state",
      "z",
      "norm_weight",
      "out",
    ],
    { read_slots: 2, write_slots: 2 },
  ),
  gd_encode_linear: sound("gd_linear", { rows: 4, in_features: 8, out_features: 16 }, ["x", "weight", "out"], {}),
  gd_encode_copy_slots: sound("gd_copy_slots", { slots: 2, count: 2, slot_elements: 8 }, ["pool"], {
    read_slots: 2,
    write_slots: 2,
  }),
  gd_encode_commit_gated_delta: sound(
    "gd_commit_gated_delta",
    {
      tokens: 4, sequences: 2, key_heads: 1, value_heads: 2, key_dim: 8, value_dim: 8, slots: 2,
      gate_dims: c.GD_GATE_PER_HEAD, head_map: c.GD_HEADS_BLOCK,
    },
    ["record_key", "record_delta", "record_decay", "state"],
    { ...indices, counts: 2 },
  ),
  gd_encode_commit_causal_conv1d: sound(
    "gd_commit_causal_conv1d",
    { tokens: 4, sequences: 2, channels: 8, width: 4, slots: 2 },
    ["x", "state"],
    { ...indices, counts: 2 },
  ),
  gd_encode_gated_delta_net_inplace: sound("gd_gated_delta_net_inplace", net, [...netTensors, "state", "state_dst"], {}),
  gd_encode_gated_delta_net_inplace_ids: sound(
    "gd_gated_delta_net_inplace_ids",
    { ...net, slots: 3, rs_head: 1 },
    [...netTensors, "cache"],
    { ids: 2 },
  ),
  gd_encode_ssm_conv_update_inplace: sound(
    "gd_ssm_conv_update_inplace",
    { sequences: 2, channels: 8, width: 4, silu: 1 },
    ["conv_states", "conv_state_dst", "weight", "x", "out"],
    {},
  ),
  gd_encode_ssm_conv_update_inplace_ids: sound(
    "gd_ssm_conv_update_inplace_ids",
    { sequences: 2, channels: 8, width: 4, silu: 1, cells: 3, rs_head: 1 },
    ["conv_cache", "weight", "x", "out"],
    { ids: 2 },
  ),
};

/** Whether the native side has released a buffer of a device: no op takes it then. Nothing stays encoded. */
export function isReleased(of: number, buffer: number): boolean {
  const op = new Descriptor("gd_linear").set("in_features", 1).set("out_features", 1); // of no rows
  for (const tensor of ["x", "weight", "out"]) op.set(`${tensor}.buffer`, buffer).set(`${tensor}.dtype`, c.GD_F32);
  const status = encode("gd_encode_linear", of, op);
  expect(native.gd_discard(of)).toBe(c.GD_OK);
  expect<readonly number[]>([c.GD_OK, c.GD_ERROR_HANDLE]).toContain(status);
  return status === c.GD_ERROR_HANDLE;
}

/** The statuses of a refusal. */
export const wrongStatuses = [
  c.GD_ERROR_INVALID_ARGUMENT,
  c.GD_ERROR_SHAPE,
  c.GD_ERROR_DTYPE,
  c.GD_ERROR_RANGE,
  c.GD_ERROR_OVERLAP,
  c.GD_ERROR_HANDLE,
  c.GD_ERROR_UNSUPPORTED,
];

/** Encodes a descriptor. */
export function encode(name: string, target: number, descriptor: Descriptor): number {
  return native[name as "gd_encode_linear"](target, descriptor.bytes);
}

/** A refusal has one of its statuses and a message. */
export function expectRefused(status: number, what: string): void {
  expect([what, wrongStatuses.includes(status as never)]).toEqual([what, true]);
  expect([what, lastError(0) !== "", lastError(3) !== ""]).toEqual([what, true, true]);
}
