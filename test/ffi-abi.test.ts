/**
 * The C functions called as no TypeScript of this package would: sound descriptors with one field wrong. Each must be
 * refused with a status and words, and leave the target as it was.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { constants as c, structs, symbols } from "../lib/native/layout.ts";
import { library } from "../lib/native/library.ts";
import { Descriptor } from "./support/raw-descriptor.ts";
import type { Fields } from "./support/raw-descriptor.ts";

const native = library() as unknown as Record<keyof typeof symbols, (...args: unknown[]) => number>;
const word = () => new Uint32Array(new ArrayBuffer(8));
const wide = (words: Uint32Array) => words[0]! + words[1]! * 2 ** 32;
const lastError = (which: number) => String(library().gd_last_error(which));

function openDevice(): number {
  const out = word();
  const options = new Descriptor("gd_device_options").set("backend", c.GD_BACKEND_CPU).set("threads", 1);
  expect(native.gd_device_open(options.bytes, out)).toBe(c.GD_OK);
  return wide(out);
}

const device = openDevice();
afterAll(() => expect(native.gd_device_close(device)).toBe(c.GD_OK));

function createBuffer(bytes: number, of = device): number {
  const [handle, pointer] = [word(), word()];
  expect(native.gd_buffer_create(of, bytes, handle, pointer)).toBe(c.GD_OK);
  return wide(handle);
}

const bufferBytes = 16384;
/** One buffer a tensor argument, so that nothing overlaps. */
const buffers = new Map<string, number>();
function bufferFor(argument: string): number {
  let handle = buffers.get(argument);
  if (handle === undefined) buffers.set(argument, (handle = createBuffer(bufferBytes)));
  return handle;
}

/** A sound descriptor of an op: plain numbers, then f32 tensors in buffers of their own, then i32 index data. */
function sound(name: string, numbers: Fields, tensors: readonly string[], indices: Fields): Descriptor {
  const descriptor = new Descriptor(name);
  for (const [field, value] of Object.entries(numbers)) descriptor.set(field, value);
  for (const argument of tensors)
    descriptor.set(`${argument}.buffer`, bufferFor(argument)).set(`${argument}.dtype`, c.GD_F32);
  for (const [argument, count] of Object.entries(indices)) {
    // Zeros are sound cuSeqlens of empty sequences, and -1 a sound slot, so one buffer of each serves all.
    descriptor
      .set(`${argument}.buffer`, argument === "cu_seqlens" ? bufferFor("zeros") : minusOnes)
      .set(`${argument}.count`, count);
  }
  return descriptor;
}

/** Borrowed by the device: it has to stay. */
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

const ops: Record<string, Descriptor> = {
  gd_encode_gated_delta: sound(
    "gd_gated_delta",
    { ...recurrence, tokens: 4, sequences: 2, algorithm: c.GD_ALGORITHM_AUTO },
    ["query", "key", "value", "gate", "beta", "a_log", "dt_bias", "state", "out"],
    { cu_seqlens: 3, read_slots: 2, write_slots: 2 },
  ),
  gd_encode_causal_conv1d: sound(
    "gd_causal_conv1d",
    { tokens: 4, sequences: 2, channels: 8, width: 4, slots: 2, activation: c.GD_ACTIVATION_SILU },
    ["x", "weight", "bias", "state", "out"],
    { cu_seqlens: 3, read_slots: 2, write_slots: 2 },
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
};

const wrongStatuses = [
  c.GD_ERROR_INVALID_ARGUMENT,
  c.GD_ERROR_SHAPE,
  c.GD_ERROR_DTYPE,
  c.GD_ERROR_RANGE,
  c.GD_ERROR_OVERLAP,
  c.GD_ERROR_HANDLE,
  c.GD_ERROR_UNSUPPORTED,
];

function encode(name: string, target: number, descriptor: Descriptor): number {
  return native[name as "gd_encode_linear"](target, descriptor.bytes);
}

/** A refusal has a status of its kind and words for it. */
function expectRefused(status: number, what: string): void {
  expect([what, wrongStatuses.includes(status as never)]).toEqual([what, true]);
  expect([what, lastError(0) !== "", lastError(3) !== ""]).toEqual([what, true, true]);
}

test("every op is here", () => {
  expect(Object.keys(ops).sort()).toEqual(
    Object.keys(symbols)
      .filter((name) => name.startsWith("gd_encode_"))
      .sort(),
  );
});

describe.each(Object.keys(ops))("%s", (name) => {
  const base = ops[name]!;
  const run = () => {
    const ticket = word();
    expect(native.gd_commit(device, ticket)).toBe(c.GD_OK);
    expect(native.gd_wait(device, wide(ticket), 2n ** 64n - 1n)).toBe(c.GD_OK);
    return wide(ticket);
  };

  test("takes the sound descriptor, and runs it", () => {
    const before = run();
    expect(encode(name, device, base)).toBe(c.GD_OK);
    expect(run()).toBe(before + 1);
  });

  test("refuses every field out of its kind, and encodes nothing then", () => {
    const before = run();
    for (const [path, type] of base.paths()) {
      const field = path.split(".").at(-1)!;
      const values =
        type === "f32"
          ? [NaN, Infinity]
          : field === "buffer"
            ? [1, 2 ** 52 - 1, device]
            : field === "count"
              ? [2 ** 31, 2 ** 52, 1]
              : field === "offset"
                ? [1, bufferBytes * 2, 2 ** 52, 2 ** 53 - 8]
                : field === "token_stride" || field === "head_stride"
                  ? [2 ** 40, 2 ** 52]
                  : field === "dtype"
                    ? [0, 5, 2 ** 32 - 1, c.GD_I32]
                    : field === "pointer"
                      ? [] // a pointer must be valid: the one thing that can't be checked
                      : field === "slots" || field === "tokens" || field === "sequences" || field === "rows"
                        ? [2 ** 31, 2 ** 32 - 1]
                        : field === "slot_elements"
                          ? [2 ** 31, 2 ** 52]
                          : [2 ** 32 - 1, 2 ** 31, 2 ** 24];
      for (const value of values) {
        const status = encode(name, device, base.copy().set(path, value));
        // A stride is not looked at where there is one row or head or none.
        if (status === c.GD_OK && field.endsWith("_stride")) {
          expect([c.GD_OK, native.gd_discard(device)]).toEqual([c.GD_OK, c.GD_OK]);
          expect(path).toMatch(
            /^(weight|bias|conv_bias|conv_weight|norm_weight|a_log|dt_bias|gate|beta|x|pool|query|key|z|out)\./,
          );
          continue;
        }
        expectRefused(status, `${path} = ${value}`);
      }
    }
    expect(run()).toBe(before);
  });

  test("refuses every tensor and index that ends past its buffer", () => {
    for (const [path] of base.paths()) {
      if (!path.endsWith(".offset") || path.startsWith("cu_seqlens")) continue;
      const elements = path.startsWith("read_slots") || path.startsWith("write_slots") ? 1 : 8;
      expectRefused(encode(name, device, base.copy().set(path, bufferBytes - 4 * elements + 32)), path);
    }
  });

  test("refuses what is missing, and index data in two places at once", () => {
    for (const [path] of base.paths()) {
      const argument = path.split(".")[0]!;
      if (
        path.endsWith(".buffer") &&
        !["bias", "conv_bias", "cu_seqlens", "read_slots", "write_slots"].includes(argument)
      ) {
        const missing = base.copy();
        for (const field of Object.keys(structs.gd_tensor.offsets)) missing.set(`${argument}.${field}`, 0);
        if (argument === "state" || argument === "conv_state") missing.set("slots", 0); // then it is the slots that are wrong
        const status = encode(name, device, missing);
        if (argument === "state" && status === c.GD_OK) native.gd_discard(device);
        else expectRefused(status, argument);
      }
      if (path.endsWith(".pointer")) {
        // The pointer is not read: two places are refused before.
        expectRefused(encode(name, device, base.copy().set(path, 4096)), path);
        expectRefused(encode(name, device, base.copy().set(`${argument}.buffer`, 0)), `${argument} without a place`);
      }
    }
  });

  test("refuses buffers that were released, and those of another device", () => {
    const other = openDevice();
    const foreign = createBuffer(bufferBytes, other);
    const released = createBuffer(bufferBytes);
    expect(native.gd_buffer_release(released)).toBe(c.GD_OK);
    for (const [path] of base.paths()) {
      if (!path.endsWith(".buffer")) continue;
      for (const handle of [released, foreign]) {
        expect([path, encode(name, device, base.copy().set(path, handle))]).toEqual([path, c.GD_ERROR_HANDLE]);
      }
    }
    expect(native.gd_device_close(other)).toBe(c.GD_OK);
    expect(native.gd_buffer_release(foreign)).toBe(c.GD_OK);
  });

  test("refuses a target that is none", () => {
    const plan = word();
    expect(native.gd_plan_create(device, plan)).toBe(c.GD_OK);
    expect(encode(name, wide(plan), base)).toBe(c.GD_OK);
    expect(native.gd_plan_release(wide(plan))).toBe(c.GD_OK);
    for (const target of [0, wide(plan), bufferFor("zeros"), device + 2 ** 40]) {
      expect(encode(name, target, base)).toBe(c.GD_ERROR_HANDLE);
    }
  });
});

describe("buffers, plans and submissions", () => {
  test("lengths beyond the limit are refused before anything is allocated", () => {
    for (const bytes of [2n ** 32n - 16383n, 2n ** 32n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n]) {
      const [handle, pointer] = [word(), word()];
      expect(native.gd_buffer_create(device, bytes, handle, pointer)).toBe(c.GD_ERROR_SHAPE);
      expect([wide(handle), wide(pointer)]).toEqual([0, 0]); // nothing is written by a failing call
    }
    expect(native.gd_buffer_create(device, 4, null, word())).toBe(c.GD_ERROR_INVALID_ARGUMENT);
    expect(native.gd_buffer_create(device, 4, word(), null)).toBe(c.GD_ERROR_INVALID_ARGUMENT);
  });

  test("memory is zeroed, aligned, and may be empty", () => {
    for (const bytes of [0, 1, 4, 16384, 100_000]) {
      const [handle, pointer] = [word(), word()];
      expect(native.gd_buffer_create(device, bytes, handle, pointer)).toBe(c.GD_OK);
      expect(wide(pointer) % 16384).toBe(0);
      expect(native.gd_buffer_release(wide(handle))).toBe(c.GD_OK);
      expect(native.gd_buffer_release(wide(handle))).toBe(c.GD_ERROR_HANDLE);
    }
  });

  test("a borrowed buffer needs an address, a length and alignment", () => {
    const memory = new Uint8Array(new ArrayBuffer(65536));
    expect(native.gd_buffer_wrap(device, memory, 2n ** 40n, word())).toBe(c.GD_ERROR_SHAPE);
    expect(native.gd_buffer_wrap(device, null, 64, word())).toBe(c.GD_ERROR_INVALID_ARGUMENT);
    expect(native.gd_buffer_wrap(device, memory, 64, null)).toBe(c.GD_ERROR_INVALID_ARGUMENT);
    expect(wrongStatuses).toContain(native.gd_buffer_wrap(device, memory.subarray(1), 64, word()) as never);
  });

  test("the deallocator bears stale handles", () => {
    native.gd_buffer_deallocate(null, 0);
    native.gd_buffer_deallocate(null, 2 ** 50);
    const handle = createBuffer(64);
    native.gd_buffer_deallocate(null, handle);
    native.gd_buffer_deallocate(null, handle);
    expect(native.gd_buffer_release(handle)).toBe(c.GD_ERROR_HANDLE);
  });

  test("tickets that were never given are refused", () => {
    for (const ticket of [2n ** 40n, 2n ** 64n - 1n]) {
      expect(native.gd_poll(device, ticket)).not.toBe(c.GD_OK);
      expect(native.gd_wait(device, ticket, 0)).not.toBe(c.GD_OK);
    }
    expect(native.gd_poll(device, 0)).toBe(c.GD_OK);
  });

  test("device options and information are versioned like descriptors", () => {
    const options = () => new Descriptor("gd_device_options").set("backend", c.GD_BACKEND_CPU);
    for (const [field, value] of [
      ["size", 0],
      ["size", 12],
      ["version", 0],
      ["version", 2],
      ["backend", 3],
      ["threads", 1025],
    ] as const) {
      expect(wrongStatuses).toContain(native.gd_device_open(options().set(field, value).bytes, word()) as never);
    }
    expect(native.gd_device_open(options().bytes, null)).toBe(c.GD_ERROR_INVALID_ARGUMENT);
    const info = () => new Descriptor("gd_device_info");
    expect(native.gd_device_describe(device, info().bytes)).toBe(c.GD_OK);
    for (const [field, value] of [
      ["size", 0],
      ["size", 4],
      ["version", 9],
    ] as const) {
      expect(wrongStatuses).toContain(native.gd_device_describe(device, info().set(field, value).bytes) as never);
    }
  });

  test("failures can be told apart by their texts, and unknown texts are empty", () => {
    expect(encode("gd_encode_linear", device, ops["gd_encode_linear"]!.copy().set("x.dtype", c.GD_I32))).toBe(
      c.GD_ERROR_DTYPE,
    );
    expect([lastError(1), lastError(2), lastError(3) !== "", lastError(4)]).toEqual(["linear", "x", true, "i32"]);
    expect(lastError(0)).toContain("linear: x: expected");
    for (const which of [5, 1000, 2 ** 32 - 1]) expect(lastError(which)).toBe("");
  });

  test("a plan over a buffer that is released later refuses to run", () => {
    const handle = createBuffer(bufferBytes);
    const plan = word();
    expect(native.gd_plan_create(device, plan)).toBe(c.GD_OK);
    expect(encode("gd_encode_linear", wide(plan), ops["gd_encode_linear"]!.copy().set("x.buffer", handle))).toBe(
      c.GD_OK,
    );
    expect(native.gd_plan_run(wide(plan), word())).toBe(c.GD_OK);
    expect(native.gd_buffer_release(handle)).toBe(c.GD_OK);
    expect(native.gd_plan_run(wide(plan), word())).toBe(c.GD_ERROR_HANDLE);
    expect(native.gd_plan_release(wide(plan))).toBe(c.GD_OK);
    expect(native.gd_plan_run(wide(plan), word())).toBe(c.GD_ERROR_HANDLE);
  });
});
