import { describe as suite, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as errors from "../lib/errors.ts";
import { FileError, GatedDeltaError, describe, errorFromNative, errorOf } from "../lib/errors.ts";
import type { ErrorCode } from "../lib/errors.ts";

const subclasses: readonly [ErrorCode, new (details: errors.ErrorDetails) => GatedDeltaError][] = [
  ["shape", errors.ShapeError],
  ["dtype", errors.DTypeError],
  ["range", errors.BoundsError],
  ["overlap", errors.OverlapError],
  ["disposed", errors.DisposedError],
  ["unsupported", errors.UnsupportedError],
  ["timeout", errors.TimeoutError],
  ["device", errors.DeviceError],
  ["library", errors.LibraryError],
];

suite("errors", () => {
  test("the message is made of the parts", () => {
    const message = (details: errors.ErrorDetails) => new GatedDeltaError("shape", details).message;
    expect(message({ op: "gatedDelta", argument: "q", expected: "3 dimensions", received: "2" })).toBe(
      "gatedDelta: q: expected 3 dimensions, got 2",
    );
    expect(message({ op: "wait", message: "the device was lost" })).toBe("wait: the device was lost");
    expect(message({ argument: "q", received: "nothing" })).toBe("q: got nothing");
    expect(message({ expected: "a tensor", message: "see x" })).toBe("expected a tensor: see x");
    expect(message({ op: "wait" })).toBe("wait: shape");
    expect(message({})).toBe("shape");
    expect(new FileError("", { op: "doctor", expected: "a file" }).message).toBe('doctor: "": expected a file');
  });

  test("each subclass stands for one code, and errorOf finds it", () => {
    const details = { op: "op", argument: "x", expected: "y", received: "z", cause: new Error("behind") };
    for (const [code, Subclass] of subclasses) {
      const error = errorOf(code, details);
      expect(error).toBeInstanceOf(Subclass);
      expect(error).toMatchObject({ code, op: "op", argument: "x", expected: "y", received: "z", name: Subclass.name });
      expect(error.cause).toBe(details.cause);
      expect(new Subclass({}).code).toBe(code);
    }
    for (const code of ["invalid-argument", "out-of-memory", "state", "internal"] as const) {
      expect(errorOf(code, details).constructor).toBe(GatedDeltaError);
      expect(errorOf(code, details).code).toBe(code);
    }
    const file = errorOf("file", details);
    expect(file).toBeInstanceOf(FileError);
    expect((file as FileError).path).toBe("x");
    // No subclass is left out of this test.
    const exported = Object.values(errors).filter((value) => typeof value === "function" && GatedDeltaError.isPrototypeOf(value));
    expect(exported).toHaveLength(subclasses.length + 1);
  });

  test("native status codes are those of the C header", () => {
    const header = readFileSync(join(import.meta.dir, "../swift/Sources/CGatedDelta/include/gated_delta.h"), "utf8");
    const found = [...header.matchAll(/^#define GD_ERROR_(\w+) (\d+)/gm)];
    expect(found.length).toBeGreaterThan(5);
    // One name differs: C's bad handle is a disposed object to callers, who never see handles.
    const codeOf = (name: string) => (name === "HANDLE" ? "disposed" : name.toLowerCase().replaceAll("_", "-"));
    const codes = new Map(found.map(([, name, status]) => [Number(status), codeOf(name!)]));
    for (let status = 0; status < 100; status++) {
      const { code, message } = errorFromNative(status, "", "", "", "", "");
      expect([status, code as string, message.includes(`native status ${status}`)]).toEqual([status, codes.get(status) ?? "internal", !codes.has(status)]);
    }
  });

  test("a native failure becomes the error of its code", () => {
    const error = errorFromNative(3, "gatedDelta", "query", "3 dimensions", "2", "gatedDelta: query: whatever");
    expect(error).toBeInstanceOf(errors.ShapeError);
    expect(error.message).toBe("gatedDelta: query: expected 3 dimensions, got 2");
    expect(errorFromNative(11, "", "", "", "", "the device was lost").message).toBe("the device was lost");
    const unknown = errorFromNative(99, "gatedDelta", "", "", "", "what?");
    expect(unknown.code).toBe("internal");
    expect(unknown.message).toBe("gatedDelta: native status 99: what?");
  });
});

suite("describe", () => {
  test("says what a value is, shortly", () => {
    const cases: [unknown, string][] = [
      ["x", '"x"'],
      [3, "3"],
      [-0, "-0"],
      [NaN, "NaN"],
      [10n, "10n"],
      [undefined, "undefined"],
      [null, "null"],
      [true, "true"],
      [[1, "a", [2, 3]], '[1, "a", an array of 2]'],
      [[], "[]"],
      [Array.from({ length: 12 }, (_, i) => i), "[0, 1, 2, 3, 4, 5, 6, 7, 8, … (12 in all)]"],
      [new Float32Array(3), "Float32Array of 12 bytes"],
      [new DataView(new ArrayBuffer(5)), "DataView of 5 bytes"],
      [new Map(), "a value of type Map"],
      [{}, "a value of type Object"],
      [Object.create(null), "a value of type Object"],
      [() => 1, "a function"],
      [Symbol("s"), "a symbol"],
    ];
    for (const [value, text] of cases) expect(describe(value)).toBe(text);
  });

  test("never throws and never runs on, whatever it is given", () => {
    const cyclic: unknown[] = [];
    for (let i = 0; i < 20; i++) cyclic.push(cyclic);
    const hostile = new Proxy({}, { get: () => { throw new Error("no"); } });
    const revoked = Proxy.revocable([], {});
    revoked.revoke();
    const named = Object.assign(Object.create({ constructor: { name: 3 } }) as object, {});
    for (const value of [cyclic, hostile, revoked.proxy, named, "x".repeat(1e6), 10n ** 500n, [("y".repeat(1e6))], new Array(1e6)]) {
      expect(describe(value).length).toBeLessThanOrEqual(120);
    }
  });
});
