/** States on disk: saved states come back to the bit, and other files are refused. */
import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, lstatSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { FileError } from "../lib/index.ts";
import type { FloatDType } from "../lib/index.ts";
import { openSafetensors, writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import { round } from "./reference/rounding.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { channels, finish, sizes, statesOn } from "./support/states.ts";

const device = openDevice();
afterAll(() => device.close());
const { newPool, fromScratch, contentOf, advance, poison } = statesOn(device);
const files = scratch();

describe("states on disk", () => {
  test("come back to the bit, in order, forks and new states among them", () => {
    using pool = newPool(6);
    const a = pool.allocate();
    advance(pool, [a], [[1, 2]]);
    const b = a.fork();
    advance(pool, [b], [[3]]);
    const c = a.fork(); // shares a's slot
    const fresh = pool.allocate();
    const path = files.newPath();
    pool.save([b, a, fresh, c], path);
    using other = newPool(5);
    poison(other);
    const loaded = other.load(path);
    expect(loaded.map((handle) => contentOf(other, handle))).toEqual([
      fromScratch([1, 2, 3]), fromScratch([1, 2]), fromScratch([]), fromScratch([1, 2]),
    ]);
    expect(other.free).toBe(1);
    advance(other, loaded, [[7], [], [1], [8, 9]]);
    device.wait();
    expect(loaded.map((handle) => contentOf(other, handle))).toEqual([
      fromScratch([1, 2, 3, 7]), fromScratch([1, 2]), fromScratch([1]), fromScratch([1, 2, 8, 9]),
    ]);
    expect(contentOf(pool, a)).toEqual(fromScratch([1, 2]));
    expect(thrownBy(() => other.load(path)).code).toBe("out-of-memory");
    expect(other.free).toBe(1);
    for (const handle of loaded) handle.free();
    expect(other.free).toBe(5);
  });

  test("a parent is saved before its children step, and after it was freed they are whole", () => {
    using pool = newPool(5);
    const parent = pool.allocate();
    advance(pool, [parent], [[1]]);
    const children = [parent.fork(), parent.fork()];
    const path = files.newPath();
    pool.save([parent], path);
    parent.free();
    advance(pool, children, [[2], [3]]);
    const [back] = pool.load(path);
    device.wait();
    expect(contentOf(pool, back!)).toEqual(fromScratch([1]));
    expect(children.map((child) => contentOf(pool, child))).toEqual([fromScratch([1, 2]), fromScratch([1, 3])]);
  });

  test("saving waits for the work that is pending, and takes no state in a step", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[1, 2, 3, 4, 5]]); // not waited for
    const path = files.newPath();
    pool.save([handle], path);
    const [copy] = pool.load(path);
    expect(contentOf(pool, copy!)).toEqual(fromScratch([1, 2, 3, 4, 5]));
    const step = pool.step([handle]);
    const error = thrownBy(() => pool.save([handle], files.newPath()));
    expect([error.code, error.argument]).toEqual(["state", "handles[0]"]);
    step.abort();
  });

  test("dtypes are converted when that is asked for, each number rounded once", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[4, 2]]);
    device.wait();
    const exact = contentOf(pool, handle);
    const numbers = new Float32Array(Uint32Array.from(exact).buffer);
    for (const dtype of ["f16", "bf16"] as const) {
      const rounded = Array.from(numbers, (x) => round(dtype, x));
      const path = files.newPath();
      pool.save([handle], path, { stateDtype: dtype, convDtype: dtype });
      const error = thrownBy(() => pool.load(path));
      expect([error instanceof FileError, error.message.includes(dtype)]).toEqual([true, true]);
      const [back] = pool.load(path, { convert: true });
      expect([...new Float32Array(Uint32Array.from(contentOf(pool, back!)).buffer)]).toEqual(rounded);
      back!.free();
      using narrow = newPool(1, { stateDtype: dtype, convDtype: dtype });
      const [same] = narrow.load(path);
      expect([...new Float32Array(Uint32Array.from(contentOf(narrow, same!)).buffer)]).toEqual(rounded);
      same!.free();
      const full = files.newPath();
      pool.save([handle], full);
      const [converted] = narrow.load(full, { convert: true });
      expect([...new Float32Array(Uint32Array.from(contentOf(narrow, converted!)).buffer)]).toEqual(rounded);
    }
  });

  test("files of other shapes are refused, each naming what differs", () => {
    using pool = newPool(1);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const path = files.newPath();
    pool.save([handle], path);
    for (const [key, other] of [
      ["layers", { layers: 3 }],
      ["key_heads", { keyHeads: 2, convChannels: channels }],
      ["value_heads", { valueHeads: 4, convChannels: channels }],
      ["key_dim", { keyDim: 16, convChannels: channels }],
      ["value_dim", { valueDim: 16, convChannels: channels }],
      ["conv_width", { convWidth: 3 }],
      ["conv_channels", { convChannels: channels + 1 }],
      ["state_dtype", { stateDtype: "f16" }],
      ["conv_dtype", { convDtype: "bf16" }],
    ] as const) {
      using wrong = newPool(2, other);
      const error = thrownBy(() => wrong.load(path));
      expect([error.code, error instanceof FileError && error.path, error.message.includes(key)]).toEqual(["file", path, true]);
      expect(wrong.free).toBe(2);
    }
  });

  test("a file with any one bit flipped, cut short, or of another kind is refused, and no slot is lost", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[1, 2]]);
    const path = files.newPath();
    pool.save([handle], path);
    const sound = readFileSync(path);
    const damaged = files.newPath();
    const refused = (bytes: Uint8Array) => {
      writeFileSync(damaged, bytes);
      const error = thrownBy(() => pool.load(damaged));
      expect(["file", "out-of-memory"]).toContain(error.code);
      expect(pool.free).toBe(1);
    };
    const headerEnd = 8 + Number(sound.readBigUInt64LE(0));
    const places = Array.from({ length: sound.length }, (_, i) => i).filter((i) => i < headerEnd || i % 37 === 0);
    for (const at of places) {
      // A changed space in the header's padding changes no value.
      if (at < headerEnd && sound[at] === 0x20) continue;
      const bytes = Uint8Array.from(sound);
      bytes[at]! ^= 1 << at % 8;
      refused(bytes);
    }
    for (const length of [0, 7, 8, headerEnd - 1, headerEnd, sound.length - 1]) refused(sound.subarray(0, length));
    refused(Buffer.concat([sound, Buffer.of(0)]));
    writeSafetensors(damaged, { x: { dtype: "F32", shape: [1], data: new Float32Array(1) } });
    expect(thrownBy(() => pool.load(damaged)).message).toContain("format");
    expect(thrownBy(() => pool.load(join(files.folder, "none"))).code).toBe("file");
    expect(thrownBy(() => pool.load(files.folder)).code).toBe("file");
    expect(existsSync(path)).toBe(true);
    expect(contentOf(pool, pool.load(path)[0]!)).toEqual(fromScratch([1, 2]));
  });

  test("a write that fails leaves the old file; what killed writers left is taken away", () => {
    using pool = newPool(1);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    expect(thrownBy(() => pool.save([handle], join(files.folder, "no", "folder"))).code).toBe("file");
    const path = files.newPath();
    pool.save([handle], path);
    // The name of this process's temporary file, as if a process that has ended had written it.
    const gone = Bun.spawnSync([process.execPath, "-e", `
      const { temporaryName } = await import(${JSON.stringify(join(import.meta.dir, "../lib/checkpoint/leftovers.ts"))});
      require("node:fs").writeFileSync(temporaryName(${JSON.stringify(path)}), "half");
    `]);
    expect(gone.exitCode).toBe(0);
    const remaining = () => readdirSync(dirname(path)).filter((name) => name.includes(basename(path)));
    expect(remaining()).toHaveLength(2);
    pool.save([handle], path);
    expect(remaining()).toEqual([basename(path)]);
  });
});

test.each(["save", "export"] as const)("%s replaces regular files only, through links, and keeps their mode", (method) => {
  using pool = newPool(1);
  const handle = pool.allocate();
  advance(pool, [handle], [[1]]);
  const write = (path: string) => void (method === "save" ? pool.save([handle], path) : pool.export([handle], path, { layout: "mlx" }));
  const path = files.newPath();
  write(path);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  chmodSync(path, 0o644);
  const link = files.newPath("link");
  symlinkSync(path, link);
  write(link);
  expect([lstatSync(link).isSymbolicLink(), lstatSync(path).isFile(), statSync(path).mode & 0o777]).toEqual([true, true, 0o644]);
  const pipe = files.newPath("pipe");
  if (Bun.spawnSync(["mkfifo", pipe]).exitCode !== 0) throw new Error("mkfifo failed");
  for (const bad of [pipe, files.folder]) {
    const error = thrownBy(() => write(bad));
    expect([error.code, error.expected]).toEqual(["file", "a regular file"]);
  }
  expect(lstatSync(pipe).isFIFO()).toBe(true);
});

describe("exports", () => {
  const at = (tensor: Float32Array, shape: readonly number[], ...index: number[]) =>
    tensor[index.reduce((sum, i, axis) => sum * shape[axis]! + i, 0)]!;

  test("every layout has every number where its system looks for it", () => {
    const shape = { layers: 1, keyHeads: 2, valueHeads: 6, keyDim: 8, valueDim: 16, convWidth: 4 };
    using pool = newPool(3, shape);
    const handles = [pool.allocate(), pool.allocate()];
    const step = pool.step(handles);
    const [Hv, Dv, Dk, C] = [6, 16, 8, 2 * 2 * 8 + 6 * 16];
    pool.state(0).data.forEach((_, i, data) => void (data[i] = i));
    pool.conv(0).data.forEach((_, i, data) => void (data[i] = -i));
    finish(step);
    const state = (b: number, ...rest: [number, number, number]) =>
      at(pool.state(0).data as Float32Array, [3, Hv, Dv, Dk], handles[b]!.slot, ...rest);
    const conv = (b: number, c: number, j: number) => at(pool.conv(0).data as Float32Array, [3, C, 3], handles[b]!.slot, c, j);
    const read = (options: Parameters<typeof pool.export>[2]) => {
      const path = files.newPath();
      pool.export(handles, path, options);
      const file = openSafetensors(path);
      const load = (name: string) => ({ shape: file.info(name).shape, data: file.float32(name) });
      return { state: load("layers.0.state"), conv: load("layers.0.conv") };
    };
    const mlx = read({ layout: "mlx" });
    const hf = read({ layout: "hf" });
    const hfShort = read({ layout: "hf", convColumns: 3 });
    const ggml = read({ layout: "ggml" });
    const tiled = read({ layout: "ggml", headMap: "tiled" });
    expect([mlx, hf, hfShort, ggml].map((file) => [file.state.shape, file.conv.shape])).toEqual([
      [[2, Hv, Dv, Dk], [2, 3, C]], [[2, Hv, Dk, Dv], [2, C, 4]], [[2, Hv, Dk, Dv], [2, C, 3]], [[2, Hv, Dv, Dk], [2, C, 3]],
    ]);
    // ggml's head j serves key head j mod 2; ours, in blocks, ⌊j / 3⌋.
    const ours = (j: number) => (j % 2) * 3 + Math.floor(j / 2);
    let wrong = 0;
    for (let b = 0; b < 2; b++) {
      for (let h = 0; h < Hv; h++) {
        for (let v = 0; v < Dv; v++) {
          for (let k = 0; k < Dk; k++) {
            wrong += Number(at(mlx.state.data, mlx.state.shape, b, h, v, k) !== state(b, h, v, k));
            wrong += Number(at(hf.state.data, hf.state.shape, b, h, k, v) !== state(b, h, v, k));
            wrong += Number(at(ggml.state.data, ggml.state.shape, b, h, v, k) !== state(b, ours(h), v, k));
            wrong += Number(at(tiled.state.data, tiled.state.shape, b, h, v, k) !== state(b, h, v, k));
          }
        }
      }
      for (let c = 0; c < C; c++) {
        const value = c - 32;
        const from = value < 0 ? c : 32 + ours(Math.floor(value / Dv)) * Dv + (value % Dv);
        wrong += Number(at(hf.conv.data, hf.conv.shape, b, c, 0) !== 0);
        for (let j = 0; j < 3; j++) {
          wrong += Number(at(mlx.conv.data, mlx.conv.shape, b, j, c) !== conv(b, c, j));
          wrong += Number(at(hf.conv.data, hf.conv.shape, b, c, j + 1) !== conv(b, c, j));
          wrong += Number(at(hfShort.conv.data, hfShort.conv.shape, b, c, j) !== conv(b, c, j));
          wrong += Number(at(ggml.conv.data, ggml.conv.shape, b, c, j) !== conv(b, from, j));
        }
      }
    }
    expect(wrong).toBe(0);
  });

  test("in other dtypes, and with options that do not fit refused by name", () => {
    using pool = newPool(1);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const path = files.newPath();
    const dtype: FloatDType = "bf16";
    pool.export([handle], path, { layout: "mlx", stateDtype: dtype });
    using file = openSafetensors(path);
    expect([file.info("layers.1.state").dtype, file.info("layers.1.conv").dtype]).toEqual(["BF16", "F32"]);
    for (const [options, argument] of [
      [{ layout: "onnx" }, "layout"],
      [{}, "layout"],
      [{ layout: "hf", convColumns: 2 }, "convColumns"],
      [{ layout: "mlx", convColumns: sizes.convWidth }, "convColumns"],
      [{ layout: "mlx", headMap: "tiled" }, "headMap"],
      [{ layout: "mlx", dtype: "f32" }, "dtype"],
    ] as const) {
      expect(thrownBy(() => pool.export([handle], path, options as never)).argument).toBe(argument);
    }
    expect(thrownBy(() => pool.save([handle], path, { stateDtype: "f64" } as never)).argument).toBe("stateDtype");
    expect(thrownBy(() => pool.load(path, { convert: 1 } as never)).argument).toBe("convert");
  });
});
