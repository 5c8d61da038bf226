/**
 * Contents of states in random programs: patterns that tell every state apart. Each state has tokens of its own; token n
 * writes the number of n and its layer into column n mod 8 of the recurrent state, and the convolution's state holds the
 * last three tokens. All of this is exact, so that a state is a function of its tokens and a foreign number names its owner.
 */

/** Columns of the recurrent state. */
export const dim = 8;
/** Channels of the convolution: query, key and value of one head. */
export const channels = 3 * dim;
/** The number of inputs that the convolution's state holds. */
export const past = 3;
/** The number of layers in every pool. */
export const layers = 2;
/** Tokens of one state. */
const alphabet = 64;

/** The contents of a state: the token in each column and the last three, 0 for none. */
export interface Pattern {
  readonly columns: readonly number[];
  readonly last: readonly number[];
}

/** The pattern without tokens. */
export const nothing: Pattern = { columns: Array<number>(dim).fill(0), last: Array<number>(past).fill(0) };

/** A pattern after more tokens. */
export function after({ columns, last }: Pattern, tokens: readonly number[]): Pattern {
  const next = [...columns];
  for (const token of tokens) next[token % dim] = token;
  return { columns: next, last: [...last, ...tokens].slice(-past) };
}

/** The n-th token of an owner, whose number is 1 or more. */
export function tokenOf(owner: number, n: number): number {
  return owner * alphabet + (n % alphabet);
}

/** The number of a token in a layer. */
export function numberOf(token: number, layer: number): number {
  return token === 0 ? 0 : token * layers + layer;
}

/** Names the owner of a number that a state should not hold. */
export function describeNumber(value: number): string {
  if (!Number.isInteger(value) || value < alphabet * layers) return `${value}`;
  const token = Math.floor(value / layers);
  return `${value} (token ${token % alphabet} of owner ${Math.floor(token / alphabet)}, layer ${value % layers})`;
}

/** The convolution's input of a token: query and value are its number, key is a unit vector. */
export function writeInput(row: Float32Array, token: number, layer: number): void {
  row.fill(numberOf(token, layer));
  row.fill(0, dim, 2 * dim);
  if (token !== 0) row[dim + (token % dim)] = 1;
}

/** The value of a token in channel c of the convolution's state. */
function inputOf(token: number, layer: number, channel: number): number {
  if (channel < dim || channel >= 2 * dim) return numberOf(token, layer);
  return token !== 0 && token % dim === channel - dim ? 1 : 0;
}

/** Writes a pattern into one slot of a layer's recurrent states. */
export function writeState(row: Float32Array, pattern: Pattern, layer: number): void {
  for (let i = 0; i < row.length; i++) row[i] = numberOf(pattern.columns[i % dim]!, layer);
}

/** Writes a pattern into one slot of a layer's convolution states. */
export function writeConv(row: Float32Array, pattern: Pattern, layer: number): void {
  for (let i = 0; i < row.length; i++) row[i] = inputOf(pattern.last[i % past]!, layer, Math.floor(i / past));
}

/** The first number of a recurrent state that is not the pattern's; undefined if all are. */
export function wrongInState(row: Float32Array, pattern: Pattern, layer: number): string | undefined {
  for (let i = 0; i < row.length; i++) {
    const expected = numberOf(pattern.columns[i % dim]!, layer);
    if (row[i] !== expected) return `column ${i % dim} of row ${Math.floor(i / dim)}: ${describeNumber(row[i]!)} in place of ${describeNumber(expected)}`;
  }
  return undefined;
}

/** The first number of a convolution state that is not the pattern's; undefined if all are. */
export function wrongInConv(row: Float32Array, pattern: Pattern, layer: number): string | undefined {
  for (let i = 0; i < row.length; i++) {
    const expected = inputOf(pattern.last[i % past]!, layer, Math.floor(i / past));
    if (row[i] !== expected) return `input ${i % past} of channel ${Math.floor(i / past)}: ${describeNumber(row[i]!)} in place of ${describeNumber(expected)}`;
  }
  return undefined;
}
