/** Hostile values: proxies, getters that throw, false lengths, iterators without end. */
import { Tensor } from "../../lib/index.ts";
import type { Device } from "../../lib/index.ts";

const boom = (): never => {
  throw new Error("boom");
};

function revoked<T extends object>(target: T): T {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

/** A proxy of an array that claims to have `length` elements, each of them `item`. */
function lying(length: unknown, item: unknown = 1): unknown {
  const of = (key: PropertyKey) => (key === "length" ? length : key === Symbol.iterator ? undefined : item);
  return new Proxy([1, 2], { get: (_, key) => of(key) });
}

class LyingFloats extends Float32Array {
  override get length() {
    return 6;
  }
}

class LyingBytes extends Uint8Array {
  override get buffer() {
    return new SharedArrayBuffer(8) as never;
  }
  override get byteOffset() {
    return 4096;
  }
}

/** An array of two elements whose iterator would never end. */
function endless(): number[] {
  const array = [1, 2];
  array[Symbol.iterator] = function* () {
    for (;;) yield 1;
  };
  return array;
}

/** A typed array whose buffer was transferred. */
function detached(): Float32Array {
  const array = new Float32Array(6);
  array.buffer.transfer(0);
  return array;
}

/** Hostile values by description. `device` is the target of proxies of devices and tensors. */
export function hostileValues(device: Device): [name: string, value: unknown][] {
  const throwing = { get: boom, has: boom, ownKeys: boom, getOwnPropertyDescriptor: boom, getPrototypeOf: boom };
  return [
    ["nothing", undefined],
    ["null", null],
    ["a number", 7],
    ["NaN", NaN],
    ["a bigint", 1n],
    ["a symbol", Symbol("s")],
    ["an object", {}],
    ["an array of arrays", [[]]],
    ["an array of texts", ["2", "3"]],
    ["a revoked array", revoked([1])],
    ["a revoked object", revoked({})],
    ["an object that throws", new Proxy({}, throwing)],
    ["an array that throws", new Proxy([1, 2], throwing)],
    ["an array whose iterator throws", Object.assign([1, 2], { [Symbol.iterator]: boom })],
    ["an array without end", endless()],
    ["an array of length NaN", lying(NaN)],
    ["an array of length -1", lying(-1)],
    ["an array of length 2^53", lying(2 ** 53)],
    ["an array whose length is an endless array", lying(endless())],
    ["an array whose length throws", lying({ valueOf: boom })],
    ["an array of what throws", lying(2, { valueOf: boom, [Symbol.toPrimitive]: boom })],
    ["floats of another length than they say", new LyingFloats(100)],
    ["bytes elsewhere than they say", new LyingBytes(64)],
    ["floats that are gone", detached()],
    ["a proxy of shared memory", new Proxy(new SharedArrayBuffer(64), {})],
    ["a prototype's object of shared memory", Object.create(SharedArrayBuffer.prototype)],
    ["a prototype's object of index data", Object.create(Int32Array.prototype)],
    ["a prototype's object of a tensor", Object.create(Tensor.prototype)],
    ["a proxy of a device", new Proxy(device, {})],
    ["a proxy of a tensor", new Proxy(device.tensor("f32", [2, 3]), {})],
    ["a proxy of a signal", new Proxy(new AbortController().signal, {})],
    ["a layout that throws", { shape: new Proxy([1], throwing), strides: endless() }],
    ["slots that throw", Object.defineProperty({}, "readSlots", { get: boom })],
  ];
}
