/** Reads states from a file, which may be damaged, from another model, or not a file of states at all. */
import { CheckedFile } from "../../checkpoint/checked-file.ts";
import { fileDTypes } from "../../checkpoint/safetensors.ts";
import { dtypes } from "../../tensor/dtype.ts";
import type { FloatDType } from "../../tensor/dtype.ts";
import { dtypeOf } from "../pool-shape.ts";
import type { PoolShape } from "../pool-shape.ts";
import { converted, rowOf, sizeKeys, stateFormat, tensorsOf } from "./format.ts";
import type { StateTensors } from "./save.ts";

/** Options of {@link StatePool.load}. */
export interface LoadOptions {
  /** Whether states of dtypes other than the pool's are converted, each number rounded once, or refused. @default false */
  readonly convert?: boolean | undefined;
}

/** The most states that a file may hold. */
const mostStates = 2 ** 32;

/** An open file of states whose header fits a pool. */
export class StateFile implements Disposable {
  /** How many states the file holds. */
  readonly count: number;
  readonly #file: CheckedFile;
  /** The pool's shape in the file's dtypes. */
  readonly #shape: PoolShape;

  /**
   * Opens a file and checks its header.
   *
   * @throws {FileError} for a file that is damaged, of another kind or version, or of a shape other than the pool's.
   */
  constructor(path: string, pool: PoolShape, convert: boolean) {
    this.#file = new CheckedFile("pool.load", path, stateFormat);
    try {
      for (const [name, key] of Object.entries(sizeKeys)) this.#file.text(key, [String(pool[name as keyof PoolShape])]);
      const all = Object.keys(fileDTypes) as FloatDType[];
      const stateDtype = this.#file.text("state_dtype", convert ? all : [pool.stateDtype]);
      const convDtype = this.#file.text("conv_dtype", convert ? all : [pool.convDtype]);
      this.#shape = { ...pool, stateDtype, convDtype };
      this.count = this.#file.count("states", mostStates);
      this.#checkTensors();
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Reads every state into a slot of the pools.
   *
   * @throws {FileError} if the bytes do not match the checksum; the contents of the slots are undefined then.
   */
  readInto(pool: StateTensors, slots: readonly number[]): void {
    const tensors = tensorsOf(this.#shape, this.count);
    const checksum = this.#file.checksum(tensors.map(({ name }) => name));
    for (const { name, layer, kind } of tensors) {
      checksum.begin(name);
      const from = dtypeOf(this.#shape, kind);
      const to = dtypeOf(pool.shape, kind);
      for (const [i, slot] of slots.entries()) {
        const row = rowOf(pool.tensor(layer, kind), slot);
        // Bytes of the pool's own dtype are read in place.
        const target = from === to ? row : dtypes[from].create(row.length);
        const bytes = new Uint8Array(target.buffer, target.byteOffset, target.byteLength);
        this.#file.source.readSlice(name, i * bytes.length, bytes);
        checksum.update(bytes);
        if (target !== row) row.set(converted(target, from, to));
      }
    }
    this.#file.expectChecksum(checksum);
  }

  [Symbol.dispose](): void {
    this.#file[Symbol.dispose]();
  }

  #checkTensors(): void {
    const tensors = tensorsOf(this.#shape, this.count);
    for (const { name, kind, shape } of tensors) this.#file.expectTensor(name, fileDTypes[dtypeOf(this.#shape, kind)], shape);
    const { length } = this.#file.source.names;
    if (length !== tensors.length) throw this.#file.bad(`${tensors.length} tensors`, `${length}`);
  }
}
