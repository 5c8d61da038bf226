/** Building blocks of random programs and schedules: a seed for each of a run, and weighted calls of actions. */
import type { Random } from "./random.ts";

/** The seed of the n-th program of a run's seed. */
export function nthSeed(seed: number, n: number): number {
  return (Math.imul(seed, 0x9e3779b1) ^ Math.imul(n + 1, 0x85ebca6b)) >>> 0;
}

/** One action; its seed decides what it does with what is there. */
export interface Call<Name extends string> {
  readonly name: Name;
  readonly seed: number;
}

/** Calls of actions, each as often as its weight says. */
export function anyCalls<Name extends string>(random: Random, weights: Readonly<Record<Name, number>>, count: number): Call<Name>[] {
  const names = Object.keys(weights) as Name[];
  const total = names.reduce((sum, name) => sum + weights[name], 0);
  const anyName = (): Name => {
    let at = random.uniform(0, total);
    for (const name of names) {
      at -= weights[name];
      if (at < 0) return name;
    }
    return names[0]!;
  };
  return Array.from({ length: count }, () => ({ name: anyName(), seed: random.below(2 ** 32) }));
}
