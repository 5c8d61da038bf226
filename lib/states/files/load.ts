/** Reads states from a file, which may be damaged, of another model, or no file of states at all. */
import { dtypes } from "../../tensor/dtype.ts";
import type { FloatDType } from "../../tensor/dtype.ts";
import { FileError, describe } from "../../errors.ts";
import { dtypeOf } from "../pool-shape.ts";
import type { PoolShape } from "../pool-shape.ts";
import { fileDTypes, openSafetensors } from "../../checkpoint/safetensors.ts";
import type { SafetensorsFile } from "../../checkpoint/safetensors.ts";
import { shapeText } from "../../tensor/expect.ts";
import { beginChecksum, bytesOf, checksumKey, converted, formatName, formatVersion, rowOf, sizeKeys, tensorsOf } from "./format.ts";
import type { StateTensors } from "./save.ts";

const op = "pool.load";

/** Options of {@link StatePool.load}. */
export interface LoadOptions {
  /** Whether states of other dtypes than the pool's are converted, each number rounded once, or refused. @default false */
  readonly convert?: boolean | undefined;
}

/** An open file of states whose header fits a pool. */
export class StateFile implements Disposable {
  /** How many states it holds. */
  readonly count: number;
  readonly #file: SafetensorsFile;
  /** The pool's shape in the file's dtypes. */
  readonly #shape: PoolShape;

  /**
   * Opens a file and checks everything that its header says.
   *
   * @throws {FileError} for a file that is damaged, of another kind or version, or of another shape than the pool's.
   */
  constructor(path: string, pool: PoolShape, convert: boolean) {
    this.#file = openSafetensors(path, op);
    try {
      this.#expect("format", [formatName]);
      this.#expect("version", [formatVersion]);
      for (const [name, key] of Object.entries(sizeKeys)) this.#expect(key, [String(pool[name as keyof PoolShape])]);
      const all = Object.keys(fileDTypes);
      const stateDtype = this.#expect("state_dtype", convert ? all : [pool.stateDtype]) as FloatDType;
      const convDtype = this.#expect("conv_dtype", convert ? all : [pool.convDtype]) as FloatDType;
      this.#shape = { ...pool, stateDtype, convDtype };
      const states = this.#file.metadata.get("states") ?? "";
      if (!/^(?:0|[1-9]\d{0,9})$/.test(states)) throw this.#bad("metadata states to be a count", describe(states));
      this.count = Number(states);
      this.#checkTensors();
    } catch (error) {
      this.#file[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Reads every state into a slot of the pools.
   *
   * @throws {FileError} where the bytes do not match the checksum; the contents of the slots are undefined then.
   */
  readInto(pool: StateTensors, slots: readonly number[]): void {
    const metadata = Object.fromEntries(this.#file.metadata);
    const checksum = beginChecksum(metadata, this.#shape, this.count);
    for (const { name, layer, kind } of tensorsOf(this.#shape, this.count)) {
      const from = dtypeOf(this.#shape, kind);
      const to = dtypeOf(pool.shape, kind);
      for (const [i, slot] of slots.entries()) {
        const row = rowOf(pool.tensor(layer, kind), slot);
        // Bytes of the pool's own dtype are read in place.
        const target = from === to ? row : dtypes[from].create(row.length);
        const bytes = bytesOf(target);
        this.#file.readSlice(name, i * bytes.length, bytes);
        checksum.update(bytes);
        if (target !== row) row.set(converted(target, from, to));
      }
    }
    const found = checksum.digest("hex");
    const said = metadata[checksumKey];
    if (said !== found) throw this.#bad(`contents of checksum ${describe(said)}, as the file says`, found);
  }

  [Symbol.dispose](): void {
    this.#file[Symbol.dispose]();
  }

  #checkTensors(): void {
    const tensors = tensorsOf(this.#shape, this.count);
    for (const { name, kind, shape } of tensors) {
      const info = this.#file.info(name);
      const dtype = fileDTypes[dtypeOf(this.#shape, kind)];
      if (info.dtype === dtype && info.shape.length === shape.length && shape.every((n, i) => n === info.shape[i])) continue;
      const received = `${info.dtype} ${shapeText(info.shape)}`;
      throw this.#bad(`tensor ${describe(name)} to be ${dtype} ${shapeText(shape)}`, received);
    }
    const { length } = this.#file.names;
    if (length !== tensors.length) throw this.#bad(`${tensors.length} tensors`, `${length}`);
  }

  /** A metadata text that must be one of a few. */
  #expect(key: string, allowed: readonly string[]): string {
    const text = this.#file.metadata.get(key);
    if (text !== undefined && allowed.includes(text)) return text;
    throw this.#bad(`metadata ${key} ${allowed.join(" or ")}`, text === undefined ? "none" : describe(text));
  }

  #bad(expected: string, received: string): FileError {
    return new FileError(this.#file.path, { op, expected, received });
  }
}
