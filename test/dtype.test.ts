import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  asDType,
  decodeBf16,
  dtypes,
  encode,
  encodeBf16,
  encodeInto,
  toFloat32,
} from "../lib/tensor/dtype.ts";
import type { DType } from "../lib/tensor/dtype.ts";
import { DTypeError } from "../lib/errors.ts";
import { round } from "./reference/rounding.ts";
import { thrownBy } from "./support/devices.ts";

const encodeBf16Value = (value: number): number => encodeBf16([value])[0]!;
const decodeBf16Value = (bits: number): number => decodeBf16([bits])[0]!;

const names = Object.keys(dtypes) as DType[];

/** The nearest finite-or-infinite bf16 by search over all of them: slow, and shares nothing with the encoder. */
const allFinite = Array.from({ length: 0x7f80 }, (_, bits) => decodeBf16Value(bits)); // ascending, >= 0
function nearestBf16(value: number): number {
  const magnitude = Math.abs(value);
  let low = 0;
  let high = allFinite.length; // index of infinity's place
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (allFinite[middle]! <= magnitude) low = middle;
    else high = middle;
  }
  const below = allFinite[low]!;
  const above = high < allFinite.length ? allFinite[high]! : 2 ** 128; // the value that infinity's bits would have
  const up = magnitude - below > above - magnitude || (magnitude - below === above - magnitude && low % 2 === 1);
  const bits = up ? high : low;
  return value < 0 || Object.is(value, -0) ? bits | 0x8000 : bits;
}

describe("the dtype table", () => {
  test("element sizes are those of the arrays", () => {
    for (const name of names) {
      const { bytes, create, view } = dtypes[name];
      expect(create(3).BYTES_PER_ELEMENT).toBe(bytes);
      expect(create(3)).toHaveLength(3);
      const buffer = new ArrayBuffer(64);
      const window = view(buffer, 16, 5);
      expect(window.buffer).toBe(buffer);
      expect(window.byteOffset).toBe(16);
      expect(window).toHaveLength(5);
    }
  });

  test("names are recognised, and nothing else is", () => {
    for (const name of names) expect(asDType(name, "op", "dtype")).toBe(name);
    for (const other of ["F32", "f64", "", "toString", "__proto__", 1, null, undefined, {}]) {
      expect(() => asDType(other, "op", "dtype")).toThrow(DTypeError);
    }
    expect(() => asDType("f64", "device.tensor", "dtype")).toThrow(
      'device.tensor: dtype: expected one of f32, f16, bf16, i32, u32, id32, u8, got "f64"',
    );
  });
});

describe("bf16", () => {
  test("values that are no numbers, and bits that are none, are named", () => {
    for (const values of ["x", undefined, 5, {}]) {
      expect(thrownBy(() => encodeBf16(values as never))).toMatchObject({ op: "encodeBf16", argument: "values" });
      expect(thrownBy(() => decodeBf16(values as never))).toMatchObject({ op: "decodeBf16", argument: "bits" });
    }
    expect(thrownBy(() => encodeBf16([1, "2"] as never)).argument).toBe("values[1]");
    for (const wrong of [-1, 0x10000, 1.5, NaN, "1", undefined]) expect(thrownBy(() => decodeBf16([0, wrong] as never)).argument).toBe("bits[1]");
  });

  test("every bit pattern survives decoding and encoding", () => {
    for (let bits = 0; bits < 0x10000; bits++) {
      const value = decodeBf16Value(bits);
      if (Number.isNaN(value)) expect(Number.isNaN(decodeBf16Value(encodeBf16Value(value)))).toBe(true);
      else if (encodeBf16Value(value) !== bits) throw new Error(`bits ${bits.toString(16)} came back different`);
    }
  });

  test("known roundings", () => {
    const cases: [number, number][] = [
      [0, 0x0000],
      [-0, 0x8000],
      [1, 0x3f80],
      [-2, 0xc000],
      [1 + 2 ** -8, 0x3f80], // tie, down to even
      [1 + 3 * 2 ** -8, 0x3f82], // tie, up to even
      [1 + 2 ** -8 + 2 ** -50, 0x3f81], // a tie as float32, but not exactly
      [1 + 3 * 2 ** -8 - 2 ** -50, 0x3f81],
      [Infinity, 0x7f80],
      [-Infinity, 0xff80],
      [3.3895313892515355e38, 0x7f7f],
      [3.4e38, 0x7f80], // more than half way past the largest
      [1e300, 0x7f80],
      [2 ** -133, 0x0001], // the least subnormal
      [2 ** -134, 0x0000], // half of it: a tie, to even
      [2 ** -134 * 1.5, 0x0001],
      [1e-300, 0x0000],
    ];
    for (const [value, bits] of cases) expect([value, encodeBf16Value(value)]).toEqual([value, bits]);
  });

  test("NaN stays NaN whatever its payload", () => {
    const words = new Uint32Array([0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff]);
    for (const bits of encodeBf16(new Float32Array(words.buffer))) expect(decodeBf16Value(bits)).toBeNaN();
    expect(encodeBf16Value(NaN) & 0x7fff).toBeGreaterThan(0x7f80);
  });

  test("encoding is rounding to nearest, ties to even", () => {
    const number = fc.oneof(
      fc.double({ noNaN: true }),
      fc.float({ noNaN: true }),
      // Near ties, where mistakes in rounding show.
      fc.tuple(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: -2, max: 2 }), fc.constantFrom(0, -60, -40, -24)).map(
        ([bits, step, scale]) => {
          const low = decodeBf16Value(bits);
          const high = decodeBf16Value((bits & 0x7fff) < 0x7f7f ? bits + 1 : bits);
          return ((low + high) / 2) * (1 + (scale === 0 ? 0 : step * 2 ** scale));
        },
      ),
    );
    fc.assert(
      fc.property(
        number.filter((value) => !Number.isNaN(value) && Number.isFinite(value)),
        (value) => encodeBf16Value(value) === nearestBf16(value),
      ),
      { numRuns: 2000 },
    );
  });

  test("arrays agree with single values", () => {
    const bits = Uint16Array.from({ length: 999 }, (_, i) => (i * 67) & 0x7f7f);
    const values = decodeBf16(bits);
    expect(Array.from(values)).toEqual(Array.from(bits, (one) => decodeBf16Value(one)));
    expect(encodeBf16(values)).toEqual(bits);
  });
});

describe("conversion", () => {
  test("what a dtype stores reads back as it is rounded", () => {
    fc.assert(
      fc.property(fc.constantFrom("f32", "f16", "bf16"), fc.array(fc.double(), { maxLength: 20 }), (dtype, values) => {
        const back = toFloat32(dtype, encode(dtype, values));
        expect(Array.from(back)).toEqual(values.map((value) => round(dtype, value)));
      }),
    );
  });

  test("i32 round-trips whole numbers", () => {
    const values = [0, -1, 2147483647, -2147483648, 7];
    expect(Array.from(encode("i32", values))).toEqual(values);
    expect(Array.from(toFloat32("i32", new Int32Array([-1, 5])))).toEqual([-1, 5]);
  });

  test("u32 round-trips whole numbers", () => {
    const values = [0, 1, 4294967295, 2147483648, 7];
    expect(Array.from(encode("u32", values))).toEqual(values);
    expect(Array.from(toFloat32("u32", new Uint32Array([2 ** 31, 5])))).toEqual([2 ** 31, 5]);
  });

  test("encodeInto leaves the rest of its target alone", () => {
    for (const name of names) {
      const target = dtypes[name].create(4).fill(9);
      encodeInto(name, [1, 2], target);
      expect(Array.from(target.subarray(2))).toEqual([9, 9]);
    }
  });

  test("f16 overflows to infinity and keeps subnormals", () => {
    expect([...toFloat32("f16", encode("f16", [65520, 65519, 2 ** -24, 2 ** -25]))]).toEqual([Infinity, 65504, 2 ** -24, 0]);
  });
});
