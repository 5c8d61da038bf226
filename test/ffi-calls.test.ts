/** The C functions other than ops, called in ways in which this package's TypeScript never calls them. */
import { describe, expect, test } from "bun:test";
import { constants as c } from "../lib/native/layout.ts";
import { Descriptor } from "./support/raw-descriptor.ts";
import {
  native,
  word,
  wide,
  lastError,
  device,
  createBuffer,
  bufferBytes,
  ops,
  wrongStatuses,
  encode,
} from "./support/raw-ops.ts";

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
