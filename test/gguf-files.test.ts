/**
 * Random changes to GGUF files: each gives a typed error or the numbers in the file, and never a crash, a hang, or memory beyond
 * the file's size and 64 MiB. The long run is gguf-files/long.ts.
 */
import { afterAll, expect, spyOn, test } from "bun:test";
import { FileTensors } from "../lib/checkpoint/file-tensors.ts";
import { Cursor } from "../lib/checkpoint/gguf/cursor.ts";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { GgufFiles } from "./gguf-files/runner.ts";
import { testPlantedFaults, testShrinking } from "./support/planted-faults.ts";
import { runSchedules } from "./support/schedules.ts";

const device = openDevice(1);
afterAll(() => device.close());
const files = scratch();
const seed = Number(process.env["GATED_DELTA_TEST_SEED"] ?? "20262");
/** An emulated GPU runs the few models that remain far more slowly. */
const programs = device.emulated ? 40 : 120;
const machine = new GgufFiles(device);

test(`${programs} changed files give typed errors or the file's numbers`, async () => {
  const { failure, counts } = await runSchedules(machine, files.newPath("runs"), seed, 0, programs);
  expect(failure).toBeUndefined();
  for (const event of ["models that ran", "refused when opened (file)"]) expect([event, counts.get(event) ?? 0]).not.toEqual([event, 0]);
}, 1_500_000);

/** Replaces a method until it is disposed of. */
function planted<Owner extends object>(owner: Owner, name: keyof Owner & string, make: (old: (...args: any[]) => unknown) => (...args: any[]) => unknown): Disposable {
  const old = owner[name] as (...args: any[]) => unknown;
  const spy = spyOn(owner, name as never).mockImplementation(make(old) as never);
  return { [Symbol.dispose]: () => spy.mockRestore() };
}

const faults = {
  "a tensor's first byte is lost": () =>
    planted(FileTensors.prototype, "readSlice", (old) => function (this: FileTensors, name: string, from: number, target: Uint8Array) {
      old.call(this, name, from, target);
      target[0]! ^= 1;
    }),
  "an end of the file has no type": () => planted(Cursor.prototype, "skip", (old) => function (this: Cursor, bytes: number, what: string) {
    if (bytes > this.left) throw new RangeError("beyond the end");
    return old.call(this, bytes, what);
  }),
};
const share = { seed, count: programs, folder: () => files.newPath("runs") };
testPlantedFaults(() => machine, faults, share);
testShrinking(() => machine, faults["a tensor's first byte is lost"], "", share);
