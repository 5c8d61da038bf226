/**
 * Loads tensors of a checkpoint onto a device in two steps: first each tensor is looked up, checked and given memory, or found in
 * its mapped file; then all tensors that are not mapped are read straight into their memory. So a checkpoint that does not fit is
 * refused before anything is read, and the same list of tensors serves synchronous and asynchronous reading.
 */

import type { Device } from "../device/device.ts";
import { DTypeError, FileError } from "../errors.ts";
import { floatDType } from "./dtypes.ts";
import { nameIn, placeIn } from "./source.ts";
import type { TensorSource } from "./source.ts";
import { dtypes, type DType, type FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Gather, Move } from "./interleaved.ts";
import { MappedTensors } from "./mapped-tensors.ts";
import { hasIntegers, matrixOf, storedMatrix, type Matrix, type MatrixUse, type StoredMatrix } from "./matrix.ts";
import type { ActivationForm } from "../native/options.ts";
import { quantizedShapes } from "./quantized-shapes.ts";
import type { QuantizationOf } from "./quantization.ts";
import { nextTurn } from "../turns.ts";

/** Dimensions of a tensor. */
export type Shape = readonly number[];

/** Bytes of a checkpoint's tensor, and their destination. */
interface Read {
  readonly name: string;
  readonly from: number;
  readonly target: Uint8Array;
}

/** The progress of {@link TensorLoader.stream}. */
export interface Streamed {
  readonly bytes: number;
  readonly total: number;
  readonly tensor: string;
}

/** Where a model's weights are. */
export interface WeightBytes {
  /** Bytes in their files, which are mapped: the system's file cache, shared with other processes. */
  readonly mapped: number;
  /** Bytes in memory of the library. */
  readonly copied: number;
}

/** Bytes of one asynchronous read, which takes at most a few milliseconds on any disk. */
const pieceBytes = 4 * 1024 * 1024;
/** Pieces that are read at a time: copying uses more than one thread where there are several. */
const piecesAtATime = 4;

/** The tensors of one load. Disposing it frees those that were not {@link taken}, as after a failed load. */
export class TensorLoader implements Disposable {
  readonly source: TensorSource;
  /** The caller's function, for messages. */
  readonly op: string;
  readonly #device: Device;
  readonly #quantization: QuantizationOf;
  readonly #tensors: Tensor[] = [];
  readonly #taken = new Set<string>();
  readonly #reads: Read[] = [];
  readonly #mapped: MappedTensors | undefined;
  readonly #activations: ActivationForm;
  readonly #uses: MatrixUse[] = [];
  #bytes = { mapped: 0, copied: 0 };

  /**
   * @param mapped if given, tensors stay in their files where possible: whether the tensor of a name will be looked up.
   * @param activations how rows are multiplied by matrices of integers.
   */
  constructor(
    device: Device,
    source: TensorSource,
    op: string,
    quantization: QuantizationOf,
    mapped?: (name: string) => boolean,
    activations: ActivationForm = "exact",
  ) {
    this.source = source;
    this.#activations = activations;
    this.#device = device;
    this.op = op;
    this.#quantization = quantization;
    if (mapped !== undefined) this.#mapped = new MappedTensors(device, source, op, mapped);
  }

  /** Whether tensors stay in their files where possible. */
  get maps(): boolean {
    return this.#mapped !== undefined;
  }

  /** Bytes of all tensors made so far. */
  get bytes(): WeightBytes {
    return { ...this.#bytes };
  }

  /** How rows are multiplied by every matrix made so far. */
  get uses(): readonly MatrixUse[] {
    return [...this.#uses];
  }

  /** All tensors made since the last call; the caller owns them from now on. */
  taken(): readonly Tensor[] {
    return this.#tensors.splice(0);
  }

  /** Whether a tensor of the checkpoint was looked up. */
  wants(name: string): boolean {
    return this.#taken.has(name);
  }

  /** A whole tensor of floats, stored in any of `shapes`; the result has the first of them. */
  tensor(name: string, ...shapes: [Shape, ...Shape[]]): Tensor {
    const dtype = this.#floats(name, shapes);
    return this.#whole(name, dtype, shapes[0]);
  }

  /** Several tensors of floats of one dtype, one after another along their first dimension. */
  stacked(names: readonly string[], shapes: readonly (readonly [Shape, ...Shape[]])[]): Tensor {
    const kinds = names.map((name, i) => this.#floats(name, shapes[i] ?? [[]]));
    const [dtype = "f32"] = kinds;
    const other = kinds.findIndex((kind) => kind !== dtype);
    if (other >= 0) {
      const received = `${kinds[other]} with ${dtype}`;
      throw new DTypeError({ op: this.op, argument: placeIn(this.source, names[other]!), expected: `the dtype of ${nameIn(this.source, names[0]!)}`, received });
    }
    const rows = shapes.reduce((sum, [shape]) => sum + (shape[0] ?? 0), 0);
    const made = this.#make(dtype, [rows, ...(shapes[0]?.[0] ?? []).slice(1)]);
    const bytes = bytesOf(made);
    let at = 0;
    for (const name of names) {
      const { bytes: length } = this.source.info(name);
      this.#read(name, 0, bytes.subarray(at, at + length));
      at += length;
    }
    return made;
  }

  /** The weight `[rows, columns]` of a module, in whichever format it is stored. */
  matrix(module: string, rows: number, columns: number): Matrix {
    return this.#matrix(module, [rows], columns);
  }

  /** A tensor of floats as matrices of the last two dimensions of its shape. */
  floatMatrices(name: string, shape: Shape): Matrix {
    const dtype = this.#floats(name, [shape]);
    return this.#used(name, { weightFormat: dtype, weight: this.#whole(name, dtype, shape, true) });
  }

  /** The weights `[experts, rows, columns]` of a module of experts, in whichever format they are stored. */
  matrices(module: string, experts: number, rows: number, columns: number): Matrix {
    return this.#matrix(module, [experts, rows], columns);
  }

  /**
   * Weights `[experts, modules · rows, columns]` for an `expertLinear`: those of an expert's modules one below another, or of one
   * module for each expert, which can stay in their files.
   *
   * @param modules for each expert the names of an equal number of modules, each `[rows, columns]`, all in the first one's format.
   */
  joined(modules: readonly (readonly string[])[], rows: number, columns: number): Matrix {
    const [[first = ""] = []] = modules;
    const stored = this.#stored(first, [rows], columns);
    const names = modules.flat();
    for (const module of names) this.#expectAlike(module, this.#stored(module, [rows], columns), first, stored);
    return this.#used(first, matrixOf(stored, (part, { dtype, shape: [each = 0, width = 0] }) => {
      const parts = names.map((module) => `${module}.${part}`);
      // Kernels take one matrix per expert from the files, but the scales and biases of all experts together.
      const mapped = part === "weight" && names.length === modules.length ? this.#mapped?.joined(parts, dtype, [each, width]) : undefined;
      if (mapped !== undefined) return this.#inPlace(mapped, parts);
      const made = this.#make(dtype, [modules.length, (names.length / modules.length) * each, width]);
      const bytes = bytesOf(made);
      const length = bytes.length / names.length;
      for (const [i, name] of parts.entries()) this.#read(name, 0, bytes.subarray(i * length, (i + 1) * length));
      return made;
    }));
  }

  /** A weight made of some rows of a module's weight, which has `storedRows`. */
  gathered(module: string, storedRows: number, columns: number, gather: Gather): Matrix {
    return this.#used(module, matrixOf(this.#stored(module, [storedRows], columns), (name, { dtype, shape: [, width = 0] }) => this.#rows(`${module}.${name}`, dtype, width, gather)));
  }

  /** Bytes that are not read yet. */
  get left(): number {
    return this.#reads.reduce((sum, { target }) => sum + target.byteLength, 0);
  }

  /** Reads everything at once. */
  read(): void {
    for (const { name, from, target } of this.#reads.splice(0)) this.source.readSlice(name, from, target);
  }

  /**
   * Reads everything in the background, in pieces of a few MiB.
   *
   * @param alive called before each piece; an error that it throws ends the reading.
   * @param progress called after each piece.
   */
  async stream(alive: () => void, progress: (streamed: Streamed) => void): Promise<void> {
    const total = this.left;
    const pieces = piecesOf(this.#reads.splice(0));
    let [bytes, failed] = [0, false];
    const reader = async (): Promise<void> => {
      try {
        for (const { name, from, target } of pieces) {
          alive();
          await this.source.readSliceAsync(name, from, target);
          await nextTurn(); // two reads may end before anything else has run
          if (failed) return;
          bytes += target.byteLength;
          progress({ bytes, total, tensor: name });
        }
      } catch (error) {
        failed = true;
        throw error;
      }
    };
    // All readers must have ended before an error releases the memory that they read into.
    const ends = await Promise.allSettled(Array.from({ length: piecesAtATime }, reader));
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }

  /** Frees the tensors that were not {@link taken}. */
  [Symbol.dispose](): void {
    this.#reads.length = 0;
    for (const tensor of this.#tensors.splice(0)) tensor[Symbol.dispose]();
    this.#mapped?.[Symbol.dispose]();
  }

  /** The checked form in which a module's weight is stored. */
  #stored(module: string, rows: readonly number[], columns: number): StoredMatrix {
    const quantized = quantizedShapes(this.source, module, rows, columns, this.#quantization(module), this.op);
    return quantized ?? storedMatrix(this.#floats(`${module}.weight`, [[...rows, columns]]), rows, columns);
  }

  #matrix(module: string, rows: readonly number[], columns: number): Matrix {
    return this.#used(module, matrixOf(this.#stored(module, rows, columns), (name, { dtype, shape }) => this.#whole(`${module}.${name}`, dtype, shape, true)));
  }

  /** A matrix with the form in which rows are multiplied by it. */
  #used(name: string, matrix: Matrix): Matrix {
    const { weightFormat } = matrix;
    const activations = hasIntegers(weightFormat) ? this.#activations : "exact";
    this.#uses.push({ name, weightFormat, activations });
    return activations === "exact" ? matrix : { ...matrix, activations };
  }

  /** Refuses a module whose form is not that of the first of several. */
  #expectAlike(module: string, stored: StoredMatrix, first: string, form: StoredMatrix): void {
    const textOf = ({ weightFormat, scales }: StoredMatrix): string => weightFormat + (scales === undefined ? "" : ` with scales of ${scales.dtype}`);
    const [expected, received] = [textOf(form), textOf(stored)];
    if (received === expected) return;
    throw new DTypeError({ op: this.op, argument: placeIn(this.source, module), expected: `${expected}, as ${nameIn(this.source, first)}`, received });
  }

  /** @param anywhere whether ops accept the tensor at any byte. */
  #whole(name: string, dtype: DType, shape: Shape, anywhere = false): Tensor {
    const mapped = this.#mapped?.tensor(name, dtype, shape, anywhere);
    if (mapped !== undefined) return this.#inPlace(mapped, [name]);
    const made = this.#make(dtype, shape);
    this.#read(name, 0, bytesOf(made));
    return made;
  }

  /** A tensor that stays in its files, where it has these names. */
  #inPlace(tensor: Tensor, names: readonly string[]): Tensor {
    for (const name of names) this.#taken.add(name);
    this.#tensors.push(tensor);
    this.#bytes.mapped += tensor.bytes;
    return tensor;
  }

  #rows(name: string, dtype: DType, columns: number, { rows, moves }: { rows: number; moves: readonly Move[] }): Tensor {
    const made = this.#make(dtype, [rows, columns]);
    const bytes = bytesOf(made);
    const rowBytes = columns * dtypes[dtype].bytes;
    for (const { from, to, rows: count } of moves) {
      this.#read(name, from * rowBytes, bytes.subarray(to * rowBytes, (to + count) * rowBytes));
    }
    return made;
  }

  #make(dtype: DType, shape: Shape): Tensor {
    const tensor = this.#device.tensor(dtype, [...shape]) as Tensor;
    this.#tensors.push(tensor);
    this.#bytes.copied += tensor.bytes;
    return tensor;
  }

  #read(name: string, from: number, target: Uint8Array): void {
    this.#taken.add(name);
    this.#reads.push({ name, from, target });
  }

  /** Checks that a tensor of floats exists in one of the shapes, and returns its dtype. */
  #floats(name: string, shapes: readonly Shape[]): FloatDType {
    const { dtype, shape, weightFormat } = this.source.info(name);
    if (weightFormat !== undefined) {
      throw new DTypeError({ op: this.op, argument: placeIn(this.source, name), expected: "F32, F16 or BF16", received: weightFormat });
    }
    if (!shapes.some((allowed) => shapeText(allowed) === shapeText(shape))) {
      const expected = `${nameIn(this.source, name)} of shape ${shapes.map(shapeText).join(" or ")}, as the configuration says`;
      throw new FileError(this.source.path, { op: this.op, expected, received: shapeText(shape) });
    }
    const own = floatDType(dtype);
    if (own) return own;
    throw new DTypeError({ op: this.op, argument: placeIn(this.source, name), expected: "F32, F16 or BF16", received: dtype });
  }
}

function shapeText(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}

function bytesOf({ data }: Tensor): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** The reads in pieces. */
function* piecesOf(reads: readonly Read[]): Generator<Read> {
  for (const { name, from, target } of reads) {
    for (let at = 0; at < target.byteLength; at += pieceBytes) yield { name, from: from + at, target: target.subarray(at, at + pieceBytes) };
  }
}
