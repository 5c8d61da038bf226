/** Plain float64 numbers with a shape: all that the reference needs of tensors. Row-major, last index fastest. */
export interface Reference {
  readonly shape: readonly number[];
  readonly data: Float64Array<ArrayBuffer>;
}

/** The product of a shape. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Numbers under a shape; zeros where none are given. Copies. */
export function reference(shape: readonly number[], values?: ArrayLike<number>): Reference {
  const size = sizeOf(shape);
  if (values !== undefined && values.length !== size) {
    throw new Error(`reference: ${values.length} values for shape [${shape.join(", ")}]`);
  }
  return { shape: [...shape], data: values === undefined ? new Float64Array(size) : new Float64Array(values) };
}

/** A copy that can be written without changing the original. */
export function copyOf(tensor: Reference): Reference {
  return reference(tensor.shape, tensor.data);
}

/** The same numbers under another shape of the same size. */
export function reshape(tensor: Reference, shape: readonly number[]): Reference {
  return reference(shape, tensor.data);
}

/** Every number through a function. */
export function map(tensor: Reference, change: (value: number) => number): Reference {
  return { shape: tensor.shape, data: mapped(tensor.data, change) };
}

/** Like `data.map(change)`, but several times as fast: JavaScriptCore compiles the loop; a typed array's `map` is native code. */
export function mapped(data: Float64Array, change: (value: number) => number): Float64Array<ArrayBuffer> {
  const out = new Float64Array(data.length);
  for (let i = 0; i < data.length; i++) out[i] = change(data[i]!);
  return out;
}

/** The sum of a row's squares. */
export function sumOfSquares(row: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += row[i]! * row[i]!;
  return sum;
}

/** Rows `start` to `end` of the first dimension. */
export function rows(tensor: Reference, start: number, end: number): Reference {
  const [, ...rest] = tensor.shape;
  const size = sizeOf(rest);
  return { shape: [end - start, ...rest], data: tensor.data.slice(start * size, end * size) };
}

/** Columns `start` to `end` of a matrix. */
export function columns(tensor: Reference, start: number, end: number): Reference {
  const [count, width] = dims(tensor, 2);
  const out = reference([count!, end - start]);
  for (let r = 0; r < count!; r++) {
    out.data.set(tensor.data.subarray(r * width! + start, r * width! + end), r * (end - start));
  }
  return out;
}

/** Dimensions reordered: dimension i of the result is dimension `order[i]` of the tensor. */
export function permute(tensor: Reference, order: readonly number[]): Reference {
  const { shape, data } = tensor;
  const strides = shape.map((_, i) => sizeOf(shape.slice(i + 1)));
  const out = reference(order.map((axis) => shape[axis]!));
  const index = order.map(() => 0);
  for (let at = 0; at < data.length; at++) {
    out.data[at] = data[index.reduce((sum, value, i) => sum + value * strides[order[i]!]!, 0)]!;
    for (let i = index.length - 1; i >= 0; i--) {
      index[i]!++;
      if (index[i]! < out.shape[i]!) break;
      index[i] = 0;
    }
  }
  return out;
}

/** The dimensions of a tensor that must have `rank` of them. */
export function dims(tensor: Reference, rank: number): readonly number[] {
  if (tensor.shape.length !== rank) throw new Error(`reference: rank ${rank} wanted, shape [${tensor.shape.join(", ")}]`);
  return tensor.shape;
}
