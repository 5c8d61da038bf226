/**
 * Deterministic automata over the code points of texts. A state accepts or does not, and has edges: ascending, disjoint ranges of code
 * points, each with the next state. A code point without an edge is not accepted.
 */

import { spend } from "./effort.ts";

/** The largest code point. */
export const lastPoint = 0x10ffff;

/** Ascending, disjoint and not adjacent ranges of code points, both ends included. */
export type Points = readonly (readonly [number, number])[];

/** All code points of texts: no surrogates. */
export const anyPoint: Points = [[0, 0xd7ff], [0xe000, lastPoint]];

export interface Edge {
  readonly from: number;
  readonly to: number;
  readonly state: number;
}

export interface State {
  readonly accepts: boolean;
  readonly edges: readonly Edge[];
}

/** States; a text begins in the first one. */
export type Automaton = readonly State[];

/** The error for more than {@link mostStates} states. */
export class TooManyStates extends Error {}

/** The most states of an automaton: each becomes a rule of a grammar. */
export const mostStates = 5000;

/** The union of ranges. */
export function joinPoints(ranges: Iterable<readonly [number, number]>): Points {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  const joined: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = joined.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

/** The code points of texts that are not in the ranges. */
export function otherPoints(points: Points): Points {
  const others: [number, number][] = [];
  for (const [start, end] of anyPoint) {
    let next = start;
    for (const [from, to] of points) {
      if (to < next || from > end) continue;
      if (from > next) others.push([next, from - 1]);
      next = to + 1;
    }
    if (next <= end) others.push([next, end]);
  }
  return others;
}

/** The code points in both sets of ranges. */
export function commonPoints(one: Points, other: Points): Points {
  const common: [number, number][] = [];
  for (const [a, b] of one) for (const [c, d] of other) if (Math.max(a, c) <= Math.min(b, d)) common.push([Math.max(a, c), Math.min(b, d)]);
  return common.sort((x, y) => x[0] - y[0]);
}

/**
 * Makes an automaton from states that are discovered on the way.
 *
 * @param first the key of the first state.
 * @param of the state of a key: whether it accepts, and its edges with the keys of the next states.
 * @throws {TooManyStates}
 */
export function explore<Key>(first: Key, name: (key: Key) => string, of: (key: Key) => { accepts: boolean; edges: readonly (readonly [number, number, Key])[] }): Automaton {
  const numbers = new Map<string, number>([[name(first), 0]]);
  const keys = [first];
  const states: State[] = [];
  for (let i = 0; i < keys.length; i++) {
    const { accepts, edges } = of(keys[i]!);
    spend(1 + edges.length);
    const numbered = edges.map(([from, to, key]) => {
      const text = name(key);
      let state = numbers.get(text);
      if (state === undefined) {
        if (keys.length === mostStates) throw new TooManyStates();
        numbers.set(text, (state = keys.length));
        keys.push(key);
      }
      return { from, to, state };
    });
    states.push({ accepts, edges: joinEdges(numbered) });
  }
  return states;
}

/** Sorts edges and joins adjacent ones to the same state. */
function joinEdges(edges: Edge[]): Edge[] {
  const joined: { from: number; to: number; state: number }[] = [];
  for (const { from, to, state } of edges.sort((a, b) => a.from - b.from)) {
    const last = joined.at(-1);
    if (last !== undefined && last.state === state && last.to === from - 1) last.to = to;
    else joined.push({ from, to, state });
  }
  return joined;
}

/** The texts that both automata accept. */
export function both(one: Automaton, other: Automaton): Automaton {
  return explore<readonly [number, number]>([0, 0], String, ([a, b]) => {
    const edges: [number, number, readonly [number, number]][] = [];
    spend((one[a]!.edges.length * other[b]!.edges.length) >> 3);
    for (const x of one[a]!.edges) {
      for (const y of other[b]!.edges) {
        const from = Math.max(x.from, y.from);
        const to = Math.min(x.to, y.to);
        if (from <= to) edges.push([from, to, [x.state, y.state]]);
      }
    }
    return { accepts: one[a]!.accepts && other[b]!.accepts, edges };
  });
}

/** The texts that an automaton does not accept. */
export function complement(automaton: Automaton): Automaton {
  const nowhere = automaton.length;
  return explore<number>(0, String, (at) => {
    const { accepts, edges } = automaton[at] ?? { accepts: false, edges: [] };
    const rest = otherPoints(joinPoints(edges.map(({ from, to }) => [from, to])));
    return { accepts: !accepts, edges: [...edges.map((edge) => [edge.from, edge.to, edge.state] as const), ...rest.map(([from, to]) => [from, to, nowhere] as const)] };
  });
}

/** Texts of some number of code points. */
export function ofLength(least: number, most: number): Automaton {
  return explore<number>(0, String, (length) => {
    const next = most === Infinity ? Math.min(length + 1, least) : length + 1;
    return { accepts: length >= least, edges: length < most ? anyPoint.map(([from, to]) => [from, to, next] as const) : [] };
  });
}

/** An automaton without the states from which no text is accepted; undefined if nothing is accepted at all. */
export function trimmed(automaton: Automaton): Automaton | undefined {
  const before: number[][] = automaton.map(() => []);
  for (const [i, { edges }] of automaton.entries()) for (const { state } of edges) before[state]!.push(i);
  const alive = new Set<number>();
  const waiting = automaton.flatMap(({ accepts }, i) => (accepts ? [i] : []));
  for (let state = waiting.pop(); state !== undefined; state = waiting.pop()) {
    if (alive.has(state)) continue;
    alive.add(state);
    for (const one of before[state]!) waiting.push(one);
  }
  if (!alive.has(0)) return undefined;
  return explore<number>(0, String, (at) => ({
    accepts: automaton[at]!.accepts,
    edges: automaton[at]!.edges.filter(({ state }) => alive.has(state)).map(({ from, to, state }) => [from, to, state] as const),
  }));
}

/** Larger automata are not minimised: the time grows with the square of the number of states. */
const mostMinimised = 600;

/** The same automaton, with states joined that accept the same texts, unless there are many states. */
export function minimal(automaton: Automaton): Automaton {
  if (automaton.length > mostMinimised) return automaton;
  let classes: number[] = automaton.map(({ accepts }) => (accepts ? 1 : 0));
  for (let count = new Set(classes).size; ; ) {
    spend(automaton.length);
    const names = new Map<string, number>();
    const next = automaton.map(({ edges }, i) => {
      const targets = joinEdges(edges.map(({ from, to, state }) => ({ from, to, state: classes[state]! })));
      const name = `${classes[i]};${targets.map(({ from, to, state }) => `${from}-${to}:${state}`).join()}`;
      if (!names.has(name)) names.set(name, names.size);
      return names.get(name)!;
    });
    classes = next;
    if (names.size === count) break;
    count = names.size;
  }
  const first = new Map<number, number>();
  for (const [i, one] of classes.entries()) if (!first.has(one)) first.set(one, i);
  return explore<number>(classes[0]!, String, (one) => {
    const { accepts, edges } = automaton[first.get(one)!]!;
    return { accepts, edges: edges.map(({ from, to, state }) => [from, to, classes[state]!] as const) };
  });
}

/** The texts of a list. */
export function ofTexts(texts: readonly string[]): Automaton {
  return explore<readonly string[]>([...new Set(texts)], (rest) => JSON.stringify(rest), (rest) => {
    spend(rest.length);
    const byFirst = new Map<number, string[]>();
    for (const text of rest) {
      const point = text.codePointAt(0);
      if (point === undefined) continue;
      const list = byFirst.get(point);
      const tail = text.slice(String.fromCodePoint(point).length);
      if (list === undefined) byFirst.set(point, [tail]);
      else list.push(tail);
    }
    return { accepts: rest.includes(""), edges: [...byFirst].map(([point, tails]) => [point, point, tails] as const) };
  });
}

const smallest = new WeakMap<Automaton, { readonly small: Automaton | undefined }>();

/** {@link trimmed}, then {@link minimal}; remembered for automata that are used again. */
export function smallestOf(automaton: Automaton): Automaton | undefined {
  let found = smallest.get(automaton);
  if (found === undefined) {
    const alive = trimmed(automaton);
    smallest.set(automaton, (found = { small: alive && minimal(alive) }));
  }
  return found.small;
}

/** Whether an automaton accepts a text. */
export function accepts(automaton: Automaton, text: string): boolean {
  let at = 0;
  for (const character of text) {
    const point = character.codePointAt(0)!;
    const edge = automaton[at]!.edges.find(({ from, to }) => from <= point && point <= to);
    if (edge === undefined) return false;
    at = edge.state;
  }
  return automaton[at]!.accepts;
}
