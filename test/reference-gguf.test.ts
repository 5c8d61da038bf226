/** The reference for ggml's formats gives the same numbers as gguf-py: see test/golden/gguf/make.py. */
import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import digests from "./golden/gguf/digests.json";
import { dequantiseGgml, ggmlFormats } from "./reference/gguf.ts";
import type { GgmlName } from "./reference/gguf.ts";

/** Blocks whose bytes come from Marsaglia's xorshift. */
function randomBytes(seed: number, count: number): Uint8Array {
  let x = seed;
  const words = Uint32Array.from({ length: count / 4 }, () => {
    x ^= x << 13;
    x ^= x >>> 17;
    return (x ^= x << 5);
  });
  return new Uint8Array(words.buffer);
}

test("every format is in the file", () => {
  expect(Object.keys(ggmlFormats).map((name) => name.replace("gguf-", ""))).toEqual(Object.keys(digests));
});

test.each(Object.keys(ggmlFormats) as GgmlName[])("%s", (name) => {
  const { type, bytes } = ggmlFormats[name];
  const { blocks, sha256 } = digests[name.replace("gguf-", "") as keyof typeof digests];
  const values = dequantiseGgml(name, randomBytes(type + 1, blocks * bytes));
  // Bits: two NaNs may differ, so they are made one.
  const bits = new Uint32Array(values.buffer);
  values.forEach((value, i) => {
    if (value !== value) bits[i] = 0x7fc00000;
  });
  expect(values.some((value) => value !== value)).toBe(name !== "gguf-mxfp4");
  expect(createHash("sha256").update(values).digest("hex")).toBe(sha256);
});
