/**
 * The C functions called in ways in which this package's TypeScript never calls them: sound descriptors with one wrong field. Each
 * must be refused with a status and a message, and leave the target as it was.
 */
import { describe, expect, test } from "bun:test";
import { constants as c, symbols } from "../lib/native/layout.ts";
import type { Descriptor } from "./support/raw-descriptor.ts";
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
  otherForms,
  encode,
  expectRefused,
} from "./support/raw-ops.ts";

const indexArguments = [
  "cu_seqlens", "read_slots", "write_slots", "counts", "ids",
  "snapshot_slots", "checkpoint_offsets", "checkpoint_tokens", "checkpoint_slots",
  "page_table", "past_tokens", "positions",
];
/** Optional tensors: those of every op, and those of single ops. */
const optionalTensors = ["bias", "conv_bias", "residual", "snapshots", "source"];
const optionalOf: Readonly<Record<string, readonly string[]>> = {
  gd_encode_attention: ["gate", "query_norm", "key_norm"],
  gd_encode_combine_experts: ["shared_gate"],
};

/** Values that no field of a name and type may have. */
function wrongValues(field: string, type: string): readonly number[] {
  if (field === "scale") return [Infinity]; // NaN is its default
  if (type === "f32") return [NaN, Infinity];
  switch (field) {
    case "buffer":
      return [1, 2 ** 52 - 1, device];
    case "count":
      return [2 ** 31, 2 ** 52, 1];
    case "offset":
      return [1, bufferBytes * 2, 2 ** 52, 2 ** 53 - 8];
    case "rank":
      return [0, 9, 2 ** 32 - 1];
    case "shape":
      return [2 ** 31, 2 ** 32 - 1, 2 ** 30];
    case "strides":
      return [0, 2 ** 31, 2 ** 32 - 1];
    case "dtype":
      return [0, 6, 2 ** 32 - 1, c.GD_I32, c.GD_U32];
    case "pointer":
      return []; // a pointer must be valid: the one thing that can't be checked
    default:
      return [2 ** 32 - 1, 2 ** 31, 2 ** 24];
  }
}

/** Whether a path is the offset of a matrix's tensor, which may lie at any byte. */
function isMatrix(name: string, path: string): boolean {
  return /^gd_encode_(?:linear|expert_linear|embedding)$/.test(name) && /^(?:weight|scales|biases)\.offset$/.test(path);
}

/** Arguments of which only one is given. */
const eitherOf: Readonly<Record<string, readonly string[]>> = { gd_encode_embedding: ["ids", "device_ids"] };

/** The fields of a descriptor, without those of arguments that others replace. */
function fieldsOf(name: string, base: Descriptor) {
  const left = (eitherOf[name] ?? []).filter((argument) => base.get(`${argument}.buffer`) === 0);
  return base.paths().filter(([path]) => !left.includes(path.split(".")[0]!));
}

/** Whether a field is never read: dimensions beyond a tensor's rank, and strides along which no step is made. */
function isNotLookedAt(base: Descriptor, path: string): boolean {
  const [, argument, field, axis] = /^(\w+)\.(shape|strides)\[(\d)\]$/.exec(path) ?? [];
  if (argument === undefined) return path === "gate_bound"; // NaN means none
  const [rank, length] = [base.get(`${argument}.rank`), base.get(`${argument}.shape[${axis}]`)];
  return Number(axis) >= rank || (field === "strides" && length <= 1);
}

test("every op is here", () => {
  expect(Object.keys(ops).sort()).toEqual(
    Object.keys(symbols)
      .filter((name) => name.startsWith("gd_encode_"))
      .sort(),
  );
});

const forms = [...Object.entries(ops).map(([name, base]) => [name, "", base] as const), ...otherForms];

describe.each(forms)("%s %s", (name, _, base) => {
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
    for (const [path, type] of fieldsOf(name, base)) {
      const field = path.split(".").at(-1)!.replace(/\[\d+\]$/, "");
      for (const value of wrongValues(field, type)) {
        if (field === "dtype" && base.get(path) === value) continue; // a weight of words
        if (value === 1 && isMatrix(name, path)) continue;
        const status = encode(name, device, base.copy().set(path, value));
        if (status === c.GD_OK && isNotLookedAt(base, path)) {
          expect(native.gd_discard(device)).toBe(c.GD_OK);
          continue;
        }
        expectRefused(status, `${path} = ${value}`);
      }
    }
    expect(run()).toBe(before);
  });

  test("refuses every tensor and index that ends past its buffer", () => {
    for (const [path] of fieldsOf(name, base)) {
      if (!path.endsWith(".offset") || path.startsWith("cu_seqlens")) continue;
      const elements = path.startsWith("read_slots") || path.startsWith("write_slots") ? 1 : 8;
      expectRefused(encode(name, device, base.copy().set(path, bufferBytes - 4 * elements + 32)), path);
    }
  });

  test("refuses what is missing, and index data in two places at once", () => {
    for (const [path] of fieldsOf(name, base)) {
      const argument = path.split(".")[0]!;
      if (
        path.endsWith(".buffer") &&
        ![...optionalTensors, ...(optionalOf[name] ?? []), ...indexArguments].includes(argument)
      ) {
        const missing = base.copy().set(`${argument}.buffer`, 0);
        const status = encode(name, device, missing);
        if (argument === "state" && status === c.GD_OK) native.gd_discard(device);
        else expectRefused(status, argument);
      }
      if (path.endsWith(".pointer")) {
        // The pointer is not read: two places are refused first.
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
    for (const [path] of fieldsOf(name, base)) {
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
