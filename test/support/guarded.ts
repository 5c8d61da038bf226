/** Tensors that end where memory ends: a read beyond them ends the process. */
import { dlopen, toArrayBuffer, type Pointer } from "bun:ffi";
import type { Device, Tensor } from "../../lib/index.ts";
import { bytesOf } from "./layouts.ts";

const isMac = process.platform === "darwin";
/** The largest page size among the systems that tests run on. */
const page = 16384;
const [readWrite, anonymous] = [3, isMac ? 0x1002 : 0x22];

const { symbols: libc } = dlopen(isMac ? "libSystem.dylib" : "libc.so.6", {
  mmap: { args: ["ptr", "u64", "i32", "i32", "i32", "i64"], returns: "ptr" },
  mprotect: { args: ["ptr", "u64", "i32"], returns: "i32" },
  munmap: { args: ["ptr", "u64"], returns: "i32" },
});

/** Copies of tensors, each with its last byte just before a page that cannot be read, until this is disposed. */
export class Guarded implements Disposable {
  readonly #device: Device;
  readonly #stack = new DisposableStack();

  constructor(device: Device) {
    this.#device = device;
  }

  /** A copy of a contiguous tensor. */
  copy(tensor: Tensor): Tensor {
    const bytes = bytesOf(tensor);
    const size = Math.ceil(bytes.length / page) * page;
    const start = libc.mmap(null, size + page, readWrite, anonymous, -1, 0) as Pointer;
    this.#stack.defer(() => void libc.munmap(start, size + page));
    if (libc.mprotect((start + size) as Pointer, page, 0) !== 0) throw new Error("mprotect failed");
    new Uint8Array(toArrayBuffer(start, size - bytes.length, bytes.length)).set(bytes);
    const each = bytes.length / tensor.data.length;
    const all = this.#stack.use(this.#device.fromPointer(tensor.dtype, [size / each], start, { owner: this }));
    return all.slice((size - bytes.length) / each, size / each).reshape(tensor.shape);
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}
