/** Weights in a mapped file, at any byte of it: the bits of `linear` and `embedding` are those of aligned copies. */
import fc from "fast-check";
import { expect, test } from "bun:test";
import { closeSync, openSync, truncateSync, writeFileSync } from "node:fs";
import { FileError, embedding, expertLinear, linear, rmsNorm } from "../../lib/index.ts";
import type { DType, Device, FloatDType, Op, Tensor } from "../../lib/index.ts";
import { dtypes } from "../../lib/tensor/dtype.ts";
import { fileMapping } from "../../lib/tensor/mapped-storage.ts";
import { contiguousStrides } from "../../lib/tensor/strides.ts";
import { makeTensor } from "../../lib/tensor/tensor.ts";
import { formats } from "../support/arbitraries.ts";
import { onEachBackend } from "../support/backends.ts";
import { scratch } from "../support/files.ts";
import { expertMatrices } from "../support/experts.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, bytesOf } from "../support/layouts.ts";
import { inPieces, mapPieces } from "../support/pieces.ts";
import { forAll } from "../support/property.ts";
import { bitWidths, groupSizes, randomQuantised } from "../support/quantised.ts";
import { Random } from "../support/random.ts";

const { newPath } = scratch();

/** A file with copies of tensors, each `shifts[i]` bytes after a multiple of 16, and the same tensors in the mapped file. */
function mapped(device: Device, tensors: readonly Tensor[], shifts: readonly number[]): Tensor[] & Disposable {
  const places: number[] = [];
  let end = 0;
  for (const [i, tensor] of tensors.entries()) {
    const at = Math.ceil(end / 16) * 16 + shifts[i]!;
    places.push(at);
    end = at + tensor.bytes;
  }
  const file = new Uint8Array(end).fill(0xa5);
  for (const [i, tensor] of tensors.entries()) file.set(bytesOf(tensor), places[i]);
  const path = newPath("weights");
  writeFileSync(path, file);
  const descriptor = openSync(path, "r");
  const [window] = device[fileMapping].map("test", { path, descriptor }, [{ offset: 0, bytes: end }]);
  closeSync(descriptor);
  const made = tensors.map(({ dtype, shape, bytes }, i) => {
    const storage = window!.storage({ offset: places[i]!, bytes });
    return makeTensor(device, storage, dtype, places[i]!, shape, contiguousStrides(shape)) as Tensor;
  });
  window![Symbol.dispose]();
  return Object.assign(made, { [Symbol.dispose]: () => made.forEach((tensor) => tensor[Symbol.dispose]()) });
}

onEachBackend("weights in a mapped file", (backend) => {
  const { device } = backend;
  const random = new Random(11);
  const floats = (format: FloatDType, shape: readonly number[]) => {
    const length = shape.reduce((product, one) => product * one, 1);
    return device.tensorFrom(format, shape, Float32Array.from({ length }, () => random.normal()));
  };
  const outcome = (out: Tensor, ...ops: Op[]): Float32Array => {
    device.run(...ops);
    device.wait();
    return out.toFloat32();
  };

  const shift = fc.integer({ min: 0, max: 15 });
  const sizes = { rows: fc.integer({ min: 1, max: 12 }), features: fc.integer({ min: 1, max: 70 }), x: formats, shifts: fc.tuple(shift, shift, shift) };

  test("packed weights, their scales and biases, at any byte", () => {
    const cases = fc.record({ ...sizes, bits: fc.constantFrom(...bitWidths), group: fc.constantFrom(...groupSizes), groups: fc.integer({ min: 1, max: 5 }), scales: formats });
    forAll(backend, 150, cases, ({ rows, features, x: xFormat, shifts, bits, group, groups, scales: format }) => {
      const { words, scales, biases } = randomQuantised(random, [features, group * groups], bits, group, format);
      const own = [
        device.tensor("u32", words.shape).copyFrom(words.data), device.tensor(format, scales.shape).copyFrom(scales.data),
        device.tensor(format, biases.shape).copyFrom(biases.data),
      ] as const;
      using inFile = mapped(device, own, shifts);
      const named = ([weight, scales, biases]: readonly Tensor[]) => ({ weight: weight!, scales: scales!, biases: biases! });
      const x = floats(xFormat, [rows, group * groups]);
      const out = device.tensor("f32", [rows, features]);
      const expected = outcome(out, linear({ x, ...named(own), out }));
      expectSameBits("linear", outcome(out, linear({ x, ...named(inFile), out })), expected);
      const ids = Int32Array.from({ length: rows }, () => random.below(features));
      const taken = device.tensor(xFormat, [rows, group * groups]);
      const rowsOf = outcome(taken, embedding({ ...named(own), ids, out: taken }));
      expectSameBits("embedding", outcome(taken, embedding({ ...named(inFile), ids, out: taken })), rowsOf);
    });
  });

  test("one row of many packed features", () => {
    for (const bits of bitWidths) {
      for (const shifts of [[4, 2, 2], [8, 8, 8], [1, 3, 1], [2, 0, 5], [15, 15, 15]]) {
        const { words, scales, biases } = randomQuantised(random, [2100, 320], bits, 64, "bf16");
        const own = [device.tensor("u32", words.shape).copyFrom(words.data), device.tensor("bf16", scales.shape).copyFrom(scales.data), device.tensor("bf16", biases.shape).copyFrom(biases.data)] as const;
        using inFile = mapped(device, own, shifts);
        const x = floats("f32", [1, 320]);
        const out = device.tensor("f32", [1, 2100]);
        const expected = outcome(out, linear({ x, weight: own[0], scales: own[1], biases: own[2], out }));
        expectSameBits(`${bits} bits at ${shifts.join()}`, outcome(out, linear({ x, weight: inFile[0]!, scales: inFile[1]!, biases: inFile[2]!, out })), expected);
      }
    }
  });

  test("matrices of experts, packed or floats, at any byte", () => {
    for (const [bits, format] of [[4, "bf16"], [8, "f16"], [6, "f32"], [undefined, "bf16"]] as const) {
      for (const shifts of [[0, 0, 0], [8, 2, 4], [4, 8, 8], [1, 1, 3], [2, 15, 6], [7, 5, 13]]) {
        const [experts, features, columns] = [5, 40, 128];
        const { words, scales, biases } = randomQuantised(random, [experts * features, columns], bits ?? 4, 64, format);
        const own = (bits === undefined
          ? [floats(format, [experts, features, columns])]
          : [device.tensor("u32", words.shape).copyFrom(words.data), device.tensor(format, scales.shape).copyFrom(scales.data), device.tensor(format, biases.shape).copyFrom(biases.data)]
        ).map((tensor) => tensor.reshape([experts, features, tensor.size / experts / features]));
        using inFile = mapped(device, own, shifts);
        const named = ([weight, scales, biases]: readonly Tensor[]) => ({ weight: weight!, ...(scales && biases && { scales, biases }) });
        for (const tokens of [1, 9]) { // few rows, and many, which are sorted by expert
          const x = floats("f32", [tokens, columns]);
          const ids = device.tensorFrom("id32", [tokens, 3], Array.from({ length: 3 * tokens }, () => random.below(experts)));
          const out = device.tensor("f32", [tokens, 3, features]);
          const expected = outcome(out, expertLinear({ x, ids, ...named(own), out }));
          expectSameBits(`${bits ?? format} at ${shifts.join()}`, outcome(out, expertLinear({ x, ids, ...named(inFile), out })), expected);
        }
      }
    }
  });

  test("matrices of experts in pieces of several files, in any order", () => {
    const cases = [["affine4-g64", 4], ["affine3-g32", 1], ["affine8-g128", 2], ["q4_k", 3], ["q8_0", 2], ["bf16", 4], ["f16", 1], ["f32", 3]] as const;
    for (const [format, files] of cases) {
      for (const remainder of [0, 1, 2, 3]) {
        const [experts, features, columns] = [7, 20, 256];
        const matrices = expertMatrices(random, format, [experts, features, columns]);
        using layouts = new Layouts(device);
        const own = matrices.place(layouts);
        using weight = inPieces(device, own.weight, random, { paths: Array.from({ length: files }, () => newPath("pieces")), remainder });
        if (format === "bf16") expectSameBits("a copy", weight.toFloat32(), own.weight.toFloat32());
        for (const tokens of [1, 9]) { // few rows, and many, which are sorted by expert
          const x = floats("f32", [tokens, columns]);
          const ids = device.tensorFrom("id32", [tokens, 3], Array.from({ length: 3 * tokens }, () => random.below(experts)));
          const out = device.tensor("f32", [tokens, 3, features]);
          const expected = outcome(out, expertLinear({ x, ids, ...own, out }));
          expectSameBits(`${format} at ${remainder}`, outcome(out, expertLinear({ x, ids, ...own, weight, out })), expected);
          using plan = device.plan((pass) => void pass.expertLinear({ x, ids, ...own, weight, out }));
          out.data.fill(0);
          plan.run();
          device.wait();
          expectSameBits(`${format} at ${remainder}, in a plan`, out.toFloat32(), expected);
        }
      }
    }
  });

  test("floats at any byte", () => {
    const cases = fc.record({ ...sizes, columns: fc.integer({ min: 1, max: 90 }), eights: fc.boolean(), weight: formats });
    forAll(backend, 150, cases, ({ rows, features, x: xFormat, shifts, columns, eights, weight: format }) => {
      const inFeatures = eights ? 8 * columns : columns;
      const weight = floats(format, [features, inFeatures]);
      using inFile = mapped(device, [weight], shifts);
      const x = floats(xFormat, [rows, inFeatures]);
      const out = device.tensor("f32", [rows, features]);
      const expected = outcome(out, linear({ x, weight, out }));
      expectSameBits("linear", outcome(out, linear({ x, weight: inFile[0]!, out })), expected);
      const ids = Int32Array.from({ length: rows }, () => random.below(features));
      const taken = device.tensor(xFormat, [rows, inFeatures]);
      const rowsOf = outcome(taken, embedding({ weight, ids, out: taken }));
      expectSameBits("embedding", outcome(taken, embedding({ weight: inFile[0]!, ids, out: taken })), rowsOf);
    });
  });

  test("the weight of a norm at any element", () => {
    for (const format of ["f32", "f16", "bf16"] as const) {
      for (const [dim, elements] of [[64, 1], [64, 2], [63, 3]] as const) {
        const weight = floats(format, [dim]);
        using inFile = mapped(device, [weight], [elements * dtypes[format].bytes]);
        const x = floats("f32", [5, dim]);
        const out = device.tensor("f32", [5, dim]);
        const expected = outcome(out, rmsNorm({ x, weight, out }));
        expectSameBits(`${format} ${dim}`, outcome(out, rmsNorm({ x, weight: inFile[0]!, out })), expected);
      }
    }
  });

  test("pieces are the weight of experts as a whole, and nothing else", () => {
    const [experts, features, columns] = [5, 8, 16];
    const own = floats("f32", [experts, features, columns]);
    const paths = [newPath("pieces"), newPath("pieces")];
    using weight = inPieces(device, own, random, { paths, remainder: 0 });
    const x = floats("f32", [2, columns]);
    const ids = device.tensorFrom("id32", [2, 1], [0, 4]);
    const out = device.tensor("f32", [2, 1, features]);
    const refused = (op: Op): unknown => {
      try {
        device.run(op);
      } catch (error) {
        return error;
      }
      return undefined;
    };
    const inOne = { code: "invalid-argument", argument: "weight", expected: "memory in one piece" };
    expect(refused(linear({ x, weight: weight.reshape([experts * features, columns]), out: device.tensor("f32", [2, experts * features]) }))).toMatchObject(inOne);
    expect(refused(embedding({ weight: weight.reshape([experts * features, columns]), ids: [1], out: device.tensor("f32", [1, columns]) }))).toMatchObject(inOne);
    expect(refused(rmsNorm({ x: weight, weight: floats("f32", [columns]), out: device.tensor("f32", [experts, features, columns]) }))).toMatchObject({ ...inOne, argument: "x" });
    const whole = { code: "shape", argument: "weight", expected: `all of its ${experts} pieces, ${4 * features * columns} bytes each` };
    expect(refused(expertLinear({ x, ids, weight: weight.slice(1, 5), out }))).toMatchObject(whole);
    expect(refused(expertLinear({ x, ids, weight: weight.slice(0, 4), out }))).toMatchObject(whole);
    expect(refused(expertLinear({ x, ids, weight: weight.reshape([experts * 2, features / 2, columns]), out: device.tensor("f32", [2, 1, features / 2]) }))).toMatchObject(whole);
    expect(refused(expertLinear({ x, ids, weight, out: weight.slice(0, 2).narrow(1, 0, 1).reshape([2, 1, columns]) as never }))).toMatchObject({ argument: "out" });
    expect(() => weight.data).toThrow("toFloat32()");
    const expected = outcome(out, expertLinear({ x, ids, weight: own, out }));
    expectSameBits("as a whole", outcome(out, expertLinear({ x, ids, weight, out })), expected);
    // Work that was encoded keeps the files, which are checked.
    device.run(expertLinear({ x, ids, weight, out }));
    weight[Symbol.dispose]();
    device.wait();
    expectSameBits("after it was disposed", out.toFloat32(), expected);
    expect(refused(expertLinear({ x, ids, weight, out }))).toMatchObject({ code: "disposed" });
    using other = inPieces(device, own, random, { paths, remainder: 1 });
    truncateSync(paths[1]!, 0);
    expect(refused(expertLinear({ x, ids, weight: other, out }))).toBeInstanceOf(FileError);
  });

  test("pieces that cannot be joined are told before anything is made", () => {
    const own = floats("bf16", [9, 4, 8]);
    const { windows, pieces, bytes } = mapPieces(device, own, random, { paths: Array.from({ length: 5 }, () => newPath("pieces")), remainder: 0 });
    const inEach = windows.map((window) => pieces.find((piece) => piece.window === window) ?? { window, offset: 0 });
    expect(device[fileMapping].join("test", inEach, 1)).toBeUndefined(); // five files
    expect(device[fileMapping].join("test", [pieces[0]!, { ...pieces[0]!, offset: pieces[0]!.offset + 2 }], bytes - 2)).toBeUndefined();
    const joined = device[fileMapping].join("test", pieces.filter(({ window }) => window === pieces[0]!.window), bytes);
    joined!.dispose();
    joined!.dispose();
    const { window } = pieces[0]!;
    expect(() => device[fileMapping].join("test", [{ window, offset: window.range.bytes - bytes + 4 }], bytes)).toThrow("inside its buffer");
    expect(() => device[fileMapping].join("test", [], bytes)).toThrow("count");
    expect(() => device[fileMapping].join("test", [pieces[0]!], 0)).toThrow("bytes");
    for (const one of windows) one[Symbol.dispose]();
    expect(() => device[fileMapping].join("test", [pieces[0]!], bytes)).toThrow("released");
  });

  test("no op writes to a mapped file, and JavaScript neither", () => {
    const weight = floats("f32", [8, 8]);
    using inFile = mapped(device, [weight], [0]);
    const [tensor] = inFile;
    const failure = (run: () => unknown) => {
      try {
        run();
      } catch (error) {
        return (error as { code?: string; argument?: string; message: string });
      }
      throw new Error("nothing was refused");
    };
    const x = floats("f32", [8, 8]);
    expect(failure(() => device.run(linear({ x, weight, out: tensor! })))).toMatchObject({ code: "invalid-argument", argument: "out" });
    expect(failure(() => tensor!.data)).toMatchObject({ code: "unsupported", message: expect.stringContaining("toFloat32()") });
    expect(failure(() => tensor!.copyFrom(new Float32Array(64)))).toMatchObject({ code: "unsupported" });
    expectSameBits("a copy", tensor!.toFloat32(), weight.toFloat32());
    expectSameBits("a copy of a view", tensor!.slice(3, 5).toFloat32(), weight.slice(3, 5).toFloat32());
    expectSameBits("a copy of columns", tensor!.narrow(1, 2, 3).toFloat32(), weight.narrow(1, 2, 3).toFloat32());
    expectSameBits("into a tensor", device.tensor("f32", [8, 8]).copyFrom(tensor!).toFloat32(), weight.toFloat32());
    const ids: DType = "i32";
    using indices = mapped(device, [device.tensorFrom(ids, [8], [0, 1, 2, 3, 4, 5, 6, 7])], [0]);
    expect(failure(() => device.run(embedding({ weight, ids: indices[0] as Tensor<"i32">, out: x })))).toMatchObject({ code: "invalid-argument", argument: "ids" });
  });
});
