/** The behaviour of every store. */
import { expect, test } from "bun:test";
import { openStore } from "../../../lib/server.ts";
import type { SessionStore } from "../../../lib/server.ts";
import { pieceBytes } from "../../../lib/server/store/session-store.ts";

/** Distinct bytes. */
export function bytesOf(length: number, seed = 1): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  const words = new Uint32Array(bytes.buffer, 0, Math.floor(length / 4));
  let word = seed >>> 0;
  for (let i = 0; i < words.length; i++) words[i] = word = (Math.imul(word, 1_664_525) + 1_013_904_223) >>> 0;
  return bytes;
}

async function readOf(store: SessionStore, name: string, length: number): Promise<Uint8Array | undefined> {
  const into = new Uint8Array(length);
  return (await store.read(name, into)) ? into : undefined;
}

/** @param place the place of the store, which is empty; its server may start after this call. */
export function storeContract(place: () => string): void {
  test("objects are read as they were written, small and in pieces, and replaced", async () => {
    const store = openStore(place());
    try {
      for (const [i, length] of [1, 2, 1000, pieceBytes - 1, pieceBytes, pieceBytes + 1, 3 * pieceBytes + 5].entries()) {
        const name = `blocks/${"a".repeat(60)}${i}`;
        const bytes = bytesOf(length, i + 1);
        expect(await readOf(store, name, length)).toBeUndefined();
        expect(await store.has([{ name, bytes: length }])).toEqual([false]);
        await store.write(name, bytes);
        expect(await store.has([{ name, bytes: length }, { name: `${name}b`, bytes: length }])).toEqual([true, false]);
        expect(Buffer.compare((await readOf(store, name, length))!, bytes)).toBe(0);
        await store.write(name, bytesOf(length, 99));
        expect(Buffer.compare((await readOf(store, name, length))!, bytesOf(length, 99))).toBe(0);
        await store.remove({ name, bytes: length });
        await store.remove({ name, bytes: length });
        expect([await readOf(store, name, length), await store.has([{ name, bytes: length }])]).toEqual([undefined, [false]]);
      }
    } finally {
      await store.close();
    }
  }, 60_000);

  test("an object of another size is none", async () => {
    const store = openStore(place());
    try {
      await store.write("entries/size", bytesOf(100));
      for (const length of [99, 101, pieceBytes + 100]) expect(await readOf(store, "entries/size", length)).toBeUndefined();
      await store.write("entries/large", bytesOf(pieceBytes + 10));
      for (const length of [pieceBytes, pieceBytes + 9, pieceBytes + 11, 2 * pieceBytes + 10]) expect(await readOf(store, "entries/large", length)).toBeUndefined();
    } finally {
      await store.close();
    }
  });

  test("sets have their members once, and another connection sees them", async () => {
    const store = openStore(place());
    const other = openStore(place());
    try {
      expect(await store.members(["lengths/none", "lengths/none2"])).toEqual([[], []]);
      for (const member of ["12", "300", "12"]) await store.add("lengths/one", member);
      await store.add("lengths/one2", "7");
      const [one, two] = await other.members(["lengths/one", "lengths/one2"]);
      expect([[...one!].sort(), two]).toEqual([["12", "300"], ["7"]]);
    } finally {
      await store.close();
      await other.close();
    }
  });
}
