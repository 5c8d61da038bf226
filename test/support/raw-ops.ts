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
/** The u64 in those eight bytes. */
export const wide = (words: Uint32Array) => words[0]! + words[1]! * 2 ** 32;
/** The text of the last failure. */
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
/** One buffer per tensor argument, so that nothing overlaps. */
const buffers = new Map<string, number>();
export function bufferFor(argument: string): number {
  let handle = buffers.get(argument);
  if (handle === undefined) buffers.set(argument, (handle = createBuffer(bufferBytes)));
  return handle;
}

/** Index data for which zeros are sound. */
const zeros = ["cu_seqlens", "counts", "checkpoint_offsets", "checkpoint_tokens", "page_table", "past_tokens", "positions"];

type Shapes = Readonly<Record<string, readonly number[]>>;

/** A sound descriptor of an op: plain numbers, then f32 tensors in separate buffers, then i32 index data. */
function sound(name: string, numbers: Fields, tensors: Shapes, indices: Fields): Descriptor {
  const descriptor = new Descriptor(name);
  for (const [field, value] of Object.entries(numbers)) descriptor.set(field, value);
  for (const [argument, shape] of Object.entries(tensors)) descriptor.tensor(argument, bufferFor(argument), shape);
  for (const [argument, count] of Object.entries(indices)) {
    // Zeros are sound cuSeqlens of empty sequences, and -1 is a sound slot, so one buffer of each serves all arguments.
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
  gate_form: c.GD_GATE_RAW,
  gate_dims: c.GD_GATE_PER_HEAD,
  beta_form: c.GD_BETA_GIVEN,
  head_map: c.GD_HEADS_BLOCK,
  qk_norm: c.GD_NORM_L2,
  qk_norm_eps: 1e-6,
  scale: 1,
  gate_bound: NaN,
};
const norm = { norm_activation: c.GD_ACTIVATION_SILU, norm_order: c.GD_NORM_THEN_GATE, norm_eps: 1e-6 };

/** Four tokens of two sequences, one key and two value heads of 8; 8 channels, four taps; two slots. */
const gates = { gate: [4, 2], beta: [4, 2], a_log: [2], dt_bias: [2] };
const states = { state: [2, 2, 8, 8], source: [2, 2, 8, 8], snapshots: [2, 2, 2, 8, 8] };
const convStates = { state: [2, 8, 3], source: [2, 8, 3], snapshots: [2, 2, 8, 3] };
const records = { record_key: [4, 1, 8], record_delta: [4, 2, 8], record_decay: [4, 2] };
/** Checkpoints. Sequences without tokens have none, so that no slot is written twice. */
const indices = { cu_seqlens: 3, read_slots: 2, write_slots: 2 };
const keptIndices = { snapshot_slots: 4, checkpoint_offsets: 3, checkpoint_tokens: 2, checkpoint_slots: 2 };
/** Two sequences of two tokens. */
const net = {
  q: [2, 2, 1, 8], k: [2, 2, 1, 8], v: [2, 2, 2, 8], gate: [2, 2, 2], beta: [2, 2, 2],
  snapshots: [2, 2, 2, 8, 8], out: [2, 2, 2, 8],
};
const update = { weight: [8, 4], x: [2, 8], out: [2, 8] };

/** 4 bits, in groups of 64; the weight consists of u32 words. */
const quantised = { weight: [16, 8], scales: [16, 1], biases: [16, 1] };

/** A sound descriptor of each op, by the function that encodes it. */
export const ops: Record<string, Descriptor> = {
  gd_encode_gated_delta: sound(
    "gd_gated_delta",
    { ...recurrence, algorithm: c.GD_ALGORITHM_AUTO },
    { query: [4, 1, 8], key: [4, 1, 8], value: [4, 2, 8], out: [4, 2, 8], ...gates, ...states, ...records },
    { ...indices, ...keptIndices },
  ),
  gd_encode_causal_conv1d: sound(
    "gd_causal_conv1d",
    { activation: c.GD_ACTIVATION_SILU },
    { x: [4, 8], weight: [8, 4], bias: [8], out: [4, 8], ...convStates },
    { ...indices, ...keptIndices },
  ),
  gd_encode_gated_rms_norm: sound(
    "gd_gated_rms_norm",
    { activation: c.GD_ACTIVATION_SILU, order: c.GD_NORM_THEN_GATE, eps: 1e-6 },
    { x: [4, 2, 8], z: [4, 2, 8], weight: [8], out: [4, 2, 8] },
    {},
  ),
  gd_encode_rms_norm: sound(
    "gd_rms_norm",
    { weight_form: c.GD_WEIGHT_PLUS_ONE, eps: 1e-6 },
    { x: [4, 2, 8], weight: [8], out: [4, 2, 8] },
    {},
  ),
  gd_encode_gated_delta_step: sound(
    "gd_gated_delta_step",
    { ...recurrence, ...norm, key_heads: 1, conv_activation: c.GD_ACTIVATION_SILU },
    {
      x: [2, 32], conv_weight: [32, 4], conv_bias: [32], conv_state: [2, 32, 3],
      ...gates, gate: [2, 2], beta: [2, 2], state: [2, 2, 8, 8], z: [2, 2, 8], norm_weight: [8], out: [2, 2, 8],
    },
    { read_slots: 2, write_slots: 2 },
  ),
  gd_encode_linear: sound("gd_linear", {}, { x: [4, 64], ...quantised, residual: [4, 16], out: [4, 16] }, {})
    .set("weight.dtype", c.GD_U32),
  gd_encode_add: sound("gd_add", {}, { a: [4, 2, 8], b: [4, 2, 8], out: [4, 2, 8] }, {}),
  gd_encode_attention: sound(
    "gd_attention",
    { rotary_dim: 8, weight_form: c.GD_WEIGHT_PLUS_ONE, rope_theta: 10000, norm_eps: 1e-6, scale: NaN },
    {
      query: [4, 2, 8], key: [4, 1, 8], value: [4, 1, 8], gate: [4, 2, 8], query_norm: [8], key_norm: [8],
      key_pages: [2, 1, 4, 8], value_pages: [2, 1, 4, 8], out: [4, 2, 8],
    },
    { cu_seqlens: 3, page_table: 4, past_tokens: 2, positions: 4 },
  ),
  gd_encode_embedding: sound("gd_embedding", {}, { ...quantised, out: [4, 64] }, { ids: 4 })
    .set("weight.dtype", c.GD_U32)
    .set("ids.buffer", bufferFor("zeros")),
  gd_encode_silu_mul: sound("gd_silu_mul", {}, { gate: [4, 2, 8], up: [4, 2, 8], out: [4, 2, 8] }, {}),
  gd_encode_route: sound("gd_route", { normalize: 1 }, { logits: [4, 8], ids: [4, 2], weights: [4, 2] }, {})
    .set("ids.dtype", c.GD_ID32),
  gd_encode_top_k: sound("gd_top_k", {}, { x: [4, 8], values: [4, 2], ids: [4, 2] }, {}).set("ids.dtype", c.GD_ID32),
  gd_encode_expert_linear: sound(
    "gd_expert_linear",
    {},
    { x: [4, 64], weight: [3, 16, 8], scales: [3, 16, 1], biases: [3, 16, 1], ids: [4, 2], out: [4, 2, 16] },
    {},
  )
    .set("weight.dtype", c.GD_U32)
    .set("ids.dtype", c.GD_ID32)
    .set("ids.buffer", bufferFor("zeros")),
  gd_encode_combine_experts: sound(
    "gd_combine_experts",
    {},
    { experts: [4, 2, 8], weights: [4, 2], shared: [4, 8], shared_gate: [4, 1], residual: [4, 8], out: [4, 8] },
    {},
  ),
  gd_encode_copy_slots: sound("gd_copy_slots", {}, { pool: [2, 8] }, { read_slots: 2, write_slots: 2 }),
  gd_encode_commit_gated_delta: sound(
    "gd_commit_gated_delta",
    { head_map: c.GD_HEADS_BLOCK },
    { ...records, state: [2, 2, 8, 8] },
    { ...indices, counts: 2 },
  ),
  gd_encode_commit_causal_conv1d: sound(
    "gd_commit_causal_conv1d",
    {},
    { x: [4, 8], state: [2, 8, 3] },
    { ...indices, counts: 2 },
  ),
  gd_encode_gated_delta_net_inplace: sound(
    "gd_gated_delta_net_inplace",
    {},
    { ...net, state: [2, 2, 8, 8], state_dst: [2, 2, 8, 8] },
    {},
  ),
  gd_encode_gated_delta_net_inplace_ids: sound(
    "gd_gated_delta_net_inplace_ids",
    { rs_head: 1 },
    { ...net, cache: [3, 2, 8, 8] },
    { ids: 2 },
  ),
  gd_encode_ssm_conv_update_inplace: sound(
    "gd_ssm_conv_update_inplace",
    { silu: 1 },
    { conv_states: [2, 8, 3], conv_state_dst: [2, 8, 3], ...update },
    {},
  ),
  gd_encode_ssm_conv_update_inplace_ids: sound(
    "gd_ssm_conv_update_inplace_ids",
    { silu: 1, rs_head: 1 },
    { conv_cache: [3, 8, 3], ...update },
    { ids: 2 },
  ),
};

/** Sound descriptors in another form. */
export const otherForms: readonly (readonly [name: string, form: string, descriptor: Descriptor])[] = [
  [
    "gd_encode_embedding",
    "ids on the device",
    sound("gd_embedding", {}, { ...quantised, out: [4, 64], device_ids: [4] }, {}).set("weight.dtype", c.GD_U32).set("device_ids.dtype", c.GD_ID32),
  ],
];

/** Whether the native side has released a buffer of a device: ops refuse it then. Nothing stays encoded. */
export function isReleased(of: number, buffer: number): boolean {
  const op = new Descriptor("gd_linear"); // without rows
  for (const [tensor, rows] of Object.entries({ x: 0, weight: 1, out: 0 })) op.tensor(tensor, buffer, [rows, 1]);
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

/** A refusal has one of these statuses and a message. */
export function expectRefused(status: number, what: string): void {
  expect([what, wrongStatuses.includes(status as never)]).toEqual([what, true]);
  expect([what, lastError(0) !== "", lastError(3) !== ""]).toEqual([what, true, true]);
}
