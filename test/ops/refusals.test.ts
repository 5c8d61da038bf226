/**
 * A refused call leaves every byte as it was, and the device ready for the next one. Mistakes in arguments
 * are in arguments.test.ts; here, none may reach a backend.
 */
import { expect, test } from "bun:test";
import { copySlots, gatedDelta, linear } from "../../lib/index.ts";
import type { DType, ErrorCode, Tensor } from "../../lib/index.ts";
import { makeOp, opNames, soundArguments, tensorsOf } from "../support/arguments.ts";
import { onEachBackend } from "../support/backends.ts";
import { buildGatedDelta } from "../support/cases.ts";
import { thrownBy } from "../support/devices.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, bytesOf, download } from "../support/layouts.ts";
import { plainDelta } from "../support/plain-specs.ts";
import { Random } from "../support/random.ts";
import { allF32, placeGatedDelta, runGatedDelta } from "../support/run-ops.ts";
import { wrongArguments } from "../support/wrong-arguments.ts";

const given = buildGatedDelta({
  ...plainDelta,
  seed: 91,
  keyHeads: 1,
  keyDim: 8,
  valueDim: 16,
  batch: { lengths: [2, 3], rowsBeyond: 2, slots: 3, readSlots: [0, 1], writeSlots: [0, 1] },
});

const randomBytes = (seed: number, bytes: Uint8Array) => {
  const random = new Random(seed);
  for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(256);
};

onEachBackend("refused calls", ({ device }) => {
  test.each(opNames)("%s: whatever is wrong, no byte of any tensor changes", (name) => {
    for (const [change, code] of wrongArguments(device)[name]) {
      const sound = soundArguments[name](device);
      const args = { ...sound, ...(typeof change === "function" ? change(sound) : change) };
      const watched = tensorsOf(args).filter(([, tensor]) => tensor.contiguous && tensor.dtype !== "i32");
      watched.forEach(([, tensor], k) => randomBytes(k + 1, bytesOf(tensor)));
      const before = watched.map(([, tensor]) => bytesOf(tensor).slice());
      expect(thrownBy(() => device.run(makeOp(name, args))).code).toBe(code);
      device.wait();
      watched.forEach(([argument, tensor], k) => expect([argument, bytesOf(tensor)]).toEqual([argument, before[k]!]));
    }
  });

  test("key and value dimensions other than multiples of 8 in 8..256", () => {
    const of = (dtype: DType, ...shape: number[]) => device.tensor(dtype, shape);
    const refused = (keyDim: number, valueDim: number, code: ErrorCode, argument: string) => {
      const args = {
        query: of("f32", 2, 1, keyDim),
        key: of("f32", 2, 1, keyDim),
        value: of("f32", 2, 1, valueDim),
        gate: of("f32", 2, 1),
        beta: of("f32", 2, 1),
        out: of("f32", 2, 1, valueDim),
      };
      args.out.data.fill(3);
      const error = thrownBy(() => device.run(gatedDelta({ ...args, gateForm: "log" })));
      expect([error.code, error.argument]).toEqual([code, argument]);
      expect(error.message).toMatch(/multiple of 8|8\.\.256/);
      device.wait();
      expect(args.out.data.every((value) => value === 3)).toBe(true);
    };
    for (const keyDim of [1, 4, 7, 9, 12, 252, 257, 264, 1024]) refused(keyDim, 8, "shape", "query");
    for (const valueDim of [1, 4, 7, 9, 12, 252, 257, 264, 1024]) refused(8, valueDim, "shape", "value");
  });

  test("one refused op in a pass: nothing of the pass runs", () => {
    using layouts = new Layouts(device);
    const args = placeGatedDelta(layouts, given, allF32);
    const before = layouts.snapshot();
    const good = gatedDelta(args);
    const bad = gatedDelta({ ...args, writeSlots: [2, 2] });
    for (const ops of [
      [good, bad],
      [bad, good],
      [good, good, bad],
    ]) {
      expect(thrownBy(() => device.run(...ops)).code).toBe("overlap");
      device.wait();
      expect(layouts.snapshot()).toEqual(before);
    }
    device.encode(good);
    expect(thrownBy(() => device.encode(bad)).code).toBe("overlap"); // earlier ops stay encoded
    device.submit();
    device.wait();
    expect(layouts.trespasses()).toEqual([]);
    expectSameBits("out", download(args.out, 5), runGatedDelta(device, given, allF32).out);
  });

  test("a replay with index data that became wrong runs nothing, and the next one all", () => {
    using layouts = new Layouts(device);
    const args = placeGatedDelta(layouts, given, allF32);
    const x = device.tensorFrom(
      "f32",
      [2, 8],
      Array.from({ length: 16 }, (_, i) => i),
    );
    const y = device.tensor("f32", [2, 2]);
    const weight = device.tensorFrom(
      "f32",
      [2, 8],
      Array.from({ length: 16 }, (_, i) => i),
    );
    const indices = {
      cuSeqlens: Int32Array.from(given.cuSeqlens!),
      readSlots: Int32Array.of(0, 1),
      writeSlots: device.tensorFrom("i32", [2], [0, 1]),
    };
    using plan = device.plan((pass) => {
      pass.linear({ x, weight, out: y });
      pass.gatedDelta({ ...args, ...indices });
      pass.copySlots({ pool: args.state!, readSlots: indices.readSlots, writeSlots: indices.writeSlots });
    });
    const before = layouts.snapshot();
    const wrongs: readonly [ErrorCode, string, (wrong: boolean) => void][] = [
      ["range", "cuSeqlens[2]", (wrong) => indices.cuSeqlens.set([0, 2, wrong ? 8 : 5])],
      ["range", "cuSeqlens[1]", (wrong) => indices.cuSeqlens.set([0, wrong ? -1 : 2, 5])],
      ["range", "cuSeqlens[0]", (wrong) => indices.cuSeqlens.set([wrong ? 1 : 0, 2, 5])],
      ["range", "readSlots[1]", (wrong) => indices.readSlots.set([0, wrong ? 3 : 1])],
      ["range", "readSlots[0]", (wrong) => indices.readSlots.set([wrong ? -2 : 0, 1])],
      ["overlap", "writeSlots[1]", (wrong) => indices.writeSlots.data.set([0, wrong ? 0 : 1])],
      ["range", "writeSlots[0]", (wrong) => indices.writeSlots.data.set([wrong ? 2 ** 31 - 1 : 0, 1])],
    ];
    for (const [code, argument, set] of wrongs) {
      set(true);
      const error = thrownBy(() => plan.run());
      expect([error.code, error.argument]).toEqual([code, argument]);
      device.wait();
      expect([layouts.snapshot(), [...y.data]]).toEqual([before, [0, 0, 0, 0]]);
      set(false);
    }
    plan.run();
    device.wait();
    expect(layouts.trespasses()).toEqual([]);
    expectSameBits("out", download(args.out, 5), runGatedDelta(device, given, allF32).out);
    expect([...y.data].some((value) => value !== 0)).toBe(true);
  });

  test("index data changed after they were encoded have no effect", () => {
    const pool = device.tensorFrom("f32", [3, 1], [1, 2, 3]);
    const write = device.tensorFrom("i32", [1], [1]) as Tensor<"i32">;
    const read = Int32Array.of(0);
    device.encode(copySlots({ pool, readSlots: read, writeSlots: write }));
    read[0] = 77;
    write.data[0] = -99;
    device.submit();
    device.wait();
    expect([...pool.data]).toEqual([1, 1, 3]);
  });

  test("the device works after all of this", () => {
    const x = device.tensorFrom("f32", [1, 2], [3, 4]);
    const out = device.tensor("f32", [1, 1]);
    device.run(linear({ x, weight: x, out }));
    device.wait();
    expect([...out.data]).toEqual([25]);
  });
});
