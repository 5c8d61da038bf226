/**
 * Arithmetic of shapes and strides, in elements, row-major, last index fastest. Pure functions over checked arrays.
 */

/** The number of elements of a shape. */
export function sizeOf(shape: readonly number[]): number {
  let size = 1;
  for (const dimension of shape) size *= dimension;
  return size;
}

/** The strides of a gapless row-major layout; never 0, so that a dimension of length 0 or 1 has a sensible one too. */
export function contiguousStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= Math.max(shape[axis]!, 1);
  }
  return strides;
}

/** Whether the layout has no gaps. Strides of dimensions of length 1 do not matter, nor do those of an empty layout. */
export function isContiguous(shape: readonly number[], strides: readonly number[]): boolean {
  if (shape.includes(0)) return true;
  let expected = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const dimension = shape[axis]!;
    if (dimension !== 1 && strides[axis] !== expected) return false;
    expected *= dimension;
  }
  return true;
}

/** The number of elements from the first to the last, gaps included; 0 for an empty shape. */
export function extentOf(shape: readonly number[], strides: readonly number[]): number {
  let last = 0;
  for (let axis = 0; axis < shape.length; axis++) {
    if (shape[axis] === 0) return 0;
    last += (shape[axis]! - 1) * strides[axis]!;
  }
  return last + 1;
}

/**
 * The strides under which the same elements have another shape of equal size, or undefined where none exist because
 * the new dimensions would cross a gap.
 */
export function reshapedStrides(
  shape: readonly number[],
  strides: readonly number[],
  target: readonly number[],
): number[] | undefined {
  if (isContiguous(shape, strides)) return contiguousStrides(target);
  const result = contiguousStrides(target);
  const old = shape.map((length, axis) => ({ length, stride: strides[axis]! })).filter(({ length }) => length !== 1);
  let from = 0;
  let to = 0;
  while (from < old.length) {
    // Find the shortest runs of old and new dimensions with equal numbers of elements.
    let oldEnd = from + 1;
    let newEnd = to + 1;
    let oldCount = old[from]!.length;
    let newCount = target[to]!;
    while (oldCount !== newCount) {
      if (newCount < oldCount) newCount *= target[newEnd++]!;
      else oldCount *= old[oldEnd++]!.length;
    }
    for (let axis = from; axis + 1 < oldEnd; axis++) {
      if (old[axis]!.stride !== old[axis + 1]!.stride * old[axis + 1]!.length) return undefined;
    }
    let stride = old[oldEnd - 1]!.stride;
    for (let axis = newEnd - 1; axis >= to; axis--) {
      result[axis] = stride;
      stride *= target[axis]!;
    }
    from = oldEnd;
    to = newEnd;
  }
  // Dimensions of length 1 left at the end keep their contiguous stride of 1.
  return result;
}

/** A typed array whose elements are copied unchanged. */
interface Elements {
  readonly length: number;
  [index: number]: number;
  set(source: Elements, at: number): void;
  subarray(start: number, end: number): Elements;
}

/** Runs of at least this many elements are faster to copy as a whole than one by one. */
const longRun = 64;

/**
 * Copies every element of one strided layout into another of the same shape.
 *
 * @param targetAt, sourceAt index of the first element.
 */
export function copyStrided(
  shape: readonly number[],
  target: Elements,
  targetAt: number,
  targetStrides: readonly number[],
  source: Elements,
  sourceAt: number,
  sourceStrides: readonly number[],
): void {
  const rank = shape.length;
  if (sizeOf(shape) === 0) return;
  const index = new Array<number>(rank).fill(0);
  const inner = shape[rank - 1]!;
  const targetStep = targetStrides[rank - 1]!;
  const sourceStep = sourceStrides[rank - 1]!;
  const asRuns = inner >= longRun && targetStep === 1 && sourceStep === 1;
  for (;;) {
    if (asRuns) target.set(source.subarray(sourceAt, sourceAt + inner), targetAt);
    else for (let i = 0; i < inner; i++) target[targetAt + i * targetStep] = source[sourceAt + i * sourceStep]!;
    let axis = rank - 2;
    for (; axis >= 0; axis--) {
      targetAt += targetStrides[axis]!;
      sourceAt += sourceStrides[axis]!;
      if (++index[axis]! < shape[axis]!) break;
      targetAt -= shape[axis]! * targetStrides[axis]!;
      sourceAt -= shape[axis]! * sourceStrides[axis]!;
      index[axis] = 0;
    }
    if (axis < 0) return;
  }
}
