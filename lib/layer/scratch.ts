/** Memory between ops: tensors with a row for each token, which grow for larger batches, and views of their rows. */

import type { Device } from "../device/device.ts";
import type { DType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** Dtype and shape of a tensor's rows. */
export type Row = readonly [dtype: DType, ...shape: number[]];

/** A value for each name, and for some of the optional ones. */
type ByName<Name extends string, Optional extends string, Value> = Readonly<Record<Name, Value> & Partial<Record<Optional, Value>>>;

/** The tensors of scratch memory by name, and the views for ops. */
export interface ScratchLayout<Name extends string, Views, Optional extends string = never> {
  readonly rows: ByName<Name, Optional, Row>;
  /** Makes views of the rows `start..end − 1`; `rows` returns these rows of one tensor. */
  views(tensors: ByName<Name, Optional, Tensor>, rows: (tensor: Tensor) => Tensor, start: number, end: number): Views;
}

/** The most sets of views to keep: lengths of prompts rarely repeat, but numbers of sequences in a batch often do. */
const mostViews = 16;

/** More than the first row of any view. */
const mostRows = 2 ** 26;

/** Scratch memory. All views share it, so only one batch can use them at a time. */
export class Scratch<Name extends string, Views, Optional extends string = never> implements Disposable {
  readonly #device: Device;
  readonly #layout: ScratchLayout<Name, Views, Optional>;
  readonly #views = new Map<number, Views>();
  /** All tensors, including replaced ones, which earlier ops and plans still use. Growth by half the size keeps their sum small. */
  readonly #made: Tensor[] = [];
  #tensors: ByName<Name, Optional, Tensor> | undefined;
  #capacity = 0;

  constructor(device: Device, layout: ScratchLayout<Name, Views, Optional>) {
    this.#device = device;
    this.#layout = layout;
  }

  /** Views of the rows `start..end − 1`. */
  views(end: number, start = 0): Views {
    const key = start * mostRows + end;
    const known = this.#views.get(key);
    if (known) return known;
    const made = this.#layout.views(this.reserve(end), (tensor) => tensor.slice(start, end), start, end);
    const [oldest] = this.#views.keys();
    if (this.#views.size >= mostViews && oldest !== undefined) this.#views.delete(oldest);
    this.#views.set(key, made);
    return made;
  }

  /** The tensors, which grow if they have fewer rows than `tokens`. */
  reserve(tokens: number): ByName<Name, Optional, Tensor> {
    if (this.#tensors && this.#capacity >= tokens) return this.#tensors;
    const capacity = Math.max(1, tokens, Math.ceil(1.5 * this.#capacity));
    const made: [string, Tensor][] = [];
    try {
      for (const [name, [dtype, ...shape]] of Object.entries<Row>(this.#layout.rows)) made.push([name, this.#device.tensor(dtype, [capacity, ...shape])]);
    } catch (error) {
      for (const [, tensor] of made) tensor[Symbol.dispose]();
      throw error;
    }
    this.#made.push(...made.map(([, tensor]) => tensor));
    this.#views.clear();
    this.#capacity = capacity;
    return (this.#tensors = Object.fromEntries(made) as ByName<Name, Optional, Tensor>);
  }

  /** Frees the memory as soon as no pending work needs it. */
  [Symbol.dispose](): void {
    for (const tensor of this.#made.splice(0)) tensor[Symbol.dispose]();
    this.#views.clear();
    this.#tensors = undefined;
    this.#capacity = 0;
  }
}
