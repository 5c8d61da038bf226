/**
 * The C functions called as no TypeScript of this package would: sound descriptors with one field wrong. Each must be
 * refused with a status and words, and leave the target as it was.
 */
import { describe, expect, test } from "bun:test";
import { constants as c, structs, symbols } from "../lib/native/layout.ts";
import {
  native,
  word,
  wide,
  openDevice,
  device,
  createBuffer,
  bufferBytes,
  bufferFor,
  ops,
  encode,
  expectRefused,
} from "./support/raw-ops.ts";

const indexArguments = [
  "cu_seqlens", "read_slots", "write_slots", "counts", "ids",
  "snapshot_slots", "checkpoint_offsets", "checkpoint_tokens", "checkpoint_slots",
];

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
                      : field === "slots" || field === "cells" || field === "tokens" || field === "sequences" || field === "rows"
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
            /^(source|snapshots|record_key|record_delta|record_decay|state|state_dst|cache|conv_states|conv_state_dst|conv_cache|weight|bias|conv_bias|conv_weight|norm_weight|a_log|dt_bias|gate|beta|x|pool|query|key|z|out)\./,
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
        !["bias", "conv_bias", "snapshots", ...indexArguments].includes(argument)
      ) {
        const missing = base.copy();
        for (const field of Object.keys(structs.gd_tensor.offsets)) missing.set(`${argument}.${field}`, 0);
        if ((argument === "state" || argument === "conv_state") && missing.has("slots")) missing.set("slots", 0); // then it is the slots that are wrong
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
