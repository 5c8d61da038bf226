/**
 * ECMAScript regular expressions, by code points (flag `u`), as automata. Groups, classes, quantifiers, `^` and `$` at the ends of
 * an alternative, and lookaheads at its beginning are supported; other assertions, backreferences and properties are refused.
 */
import { TooManyStates, anyPoint, both, complement, explore } from "./automaton.ts";
import type { Automaton, Points } from "./automaton.ts";
import { spend } from "./effort.ts";
import { ExpressionProblem, ExpressionReader, mostParts } from "./expression-reader.ts";
import type { Branch, Part } from "./expression-reader.ts";

/**
 * The automaton of an expression.
 *
 * @param search whether the expression may match anywhere in a text, like a schema's `pattern`; otherwise it must match the whole text.
 * @throws {ExpressionProblem} with the reason.
 */
export function automatonOf(source: string, search: boolean): Automaton {
  const reader = new ExpressionReader(source);
  const branches = reader.branches(true);
  reader.expectEnd();
  try {
    return ofBranches(branches, search);
  } catch (error) {
    throw error instanceof TooManyStates ? new ExpressionProblem("an expression whose automaton has fewer states") : error;
  }
}

function ofBranches(branches: readonly Branch[], search: boolean, openEnd = search): Automaton {
  const nets = branches.map(({ fromStart, toEnd, lookaheads, part }) => {
    const any: Part = { kind: "repeat", part: { kind: "points", points: anyPoint }, least: 0, most: Infinity };
    const parts = [...(search && !fromStart ? [any] : []), part, ...(openEnd && !toEnd ? [any] : [])];
    const whole: Part = { kind: "sequence", parts };
    return { whole, lookaheads };
  });
  if (nets.every(({ lookaheads }) => lookaheads.length === 0)) return determined(nets.map(({ whole }) => whole));
  if (nets.length > 1) throw new ExpressionProblem("an expression without lookaheads in one of several alternatives");
  const { whole, lookaheads } = nets[0]!;
  return lookaheads.reduce((found, { branches: ahead, wanted }) => {
    const condition = ofBranches(ahead, false, true);
    return both(found, wanted ? condition : complement(condition));
  }, determined([whole]));
}

/** A nondeterministic automaton, made deterministic. */
function determined(alternatives: readonly Part[]): Automaton {
  const edges: { readonly points: Points; readonly to: number }[][] = [];
  const empty: number[][] = [];
  const add = (): number => {
    if (edges.length > mostParts) throw new TooManyStates();
    empty.push([]);
    return edges.push([]) - 1;
  };
  /** Adds a part that begins in a state. Returns the state in which it ends. */
  const put = (part: Part, from: number): number => {
    switch (part.kind) {
      case "points": {
        const to = add();
        edges[from]!.push({ points: part.points, to });
        return to;
      }
      case "sequence":
        return part.parts.reduce((at, one) => put(one, at), from);
      case "choice": {
        const to = add();
        for (const one of part.parts) {
          const begin = add();
          empty[from]!.push(begin);
          empty[put(one, begin)]!.push(to);
        }
        return to;
      }
      case "repeat": {
        let at = from;
        for (let i = 0; i < part.least; i++) at = put(part.part, at);
        const end = add();
        if (part.most === Infinity) {
          const loop = add();
          empty[at]!.push(loop);
          empty[put(part.part, loop)]!.push(loop);
          empty[loop]!.push(end);
        } else {
          for (let i = part.least; i < part.most; i++) {
            empty[at]!.push(end);
            const begin = add();
            empty[at]!.push(begin);
            at = put(part.part, begin);
          }
          empty[at]!.push(end);
        }
        return end;
      }
    }
  };
  const start = add();
  const end = put({ kind: "choice", parts: alternatives }, start);
  const closed = (states: Iterable<number>): readonly number[] => {
    const found = new Set<number>();
    const waiting = [...states];
    for (let state = waiting.pop(); state !== undefined; state = waiting.pop()) {
      if (found.has(state)) continue;
      found.add(state);
      for (const one of empty[state]!) waiting.push(one);
    }
    return [...found].sort((a, b) => a - b);
  };
  return explore<readonly number[]>(closed([start]), (states) => states.join(), (states) => {
    const all = states.flatMap((state) => edges[state]!);
    // Where ranges begin and end, in order, with the states that are reached from there on or no longer reached.
    const changes = new Map<number, { readonly begin: number[]; readonly end: number[] }>();
    const changesAt = (point: number) => {
      let found = changes.get(point);
      if (found === undefined) changes.set(point, (found = { begin: [], end: [] }));
      return found;
    };
    for (const { points, to } of all) {
      spend(1 + points.length);
      for (const [from, last] of points) {
        changesAt(from).begin.push(to);
        changesAt(last + 1).end.push(to);
      }
    }
    const sorted = [...changes].sort(([a], [b]) => a - b);
    const reached = new Set<number>();
    const next: [number, number, readonly number[]][] = [];
    for (const [i, [at, { begin, end: over }]] of sorted.entries()) {
      // Each state is reached by the ranges of one part, which are disjoint.
      for (const to of over) reached.delete(to);
      for (const to of begin) reached.add(to);
      if (reached.size === 0) continue;
      spend(reached.size);
      next.push([at, sorted[i + 1]![0] - 1, closed(reached)]);
    }
    return { accepts: states.includes(end), edges: next };
  });
}
