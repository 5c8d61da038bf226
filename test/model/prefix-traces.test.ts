/** How many tokens agents' traces read with the prefix cache, compared with a plain cache that evicts by age. */
import { describe, expect, test } from "bun:test";
import { agentTraces, changes, mostReadAgain, replay, replayLru } from "../support/traces.ts";

/** A state costs as much as 500 tokens' keys and values. */
const costs = (budget: number) => ({ state: 500, token: 1, budget });
const sum = (reads: readonly number[]) => reads.reduce((total, each) => total + each, 0);
const traces = Object.entries(agentTraces());

describe.each(traces)("%s", (_, trace) => {
  test("a request reads what changed, and the tokens since the last kept position", () => {
    const reads = replay(trace, costs(1e9));
    for (const [i, { changed, into }] of changes(trace).entries()) {
      expect(reads[i]).toBeGreaterThanOrEqual(changed);
      expect(reads[i]).toBeLessThanOrEqual(changed + 1 + mostReadAgain(into));
    }
    expect(sum(replayLru(trace, costs(1e9)))).toBeGreaterThanOrEqual(sum(reads));
  });
});

test("tokens read, in all: without a cache, by plain LRU, by this cache, and what changed", () => {
  const table = traces.map(([name, trace]) => {
    const [roomy, tight] = [1e9, 24000].map((budget) => [sum(replayLru(trace, costs(budget))), sum(replay(trace, costs(budget)))]);
    return [name, sum(trace.map(({ prompt }) => prompt.length)), ...roomy!, ...tight!, sum(changes(trace).map(({ changed }) => changed))];
  });
  // For each trace: no cache; LRU and this cache with room for all; LRU and this cache with room for 48 states; the changed tokens.
  expect(table).toEqual([
    ["long system prompt", 49920, 49920, 3920, 49920, 3920, 3920],
    ["edit of the last message", 14659, 14659, 3699, 14659, 3699, 3139],
    ["regeneration", 12900, 2155, 2155, 2155, 2155, 2150],
    ["sub-agents that return", 59600, 12428, 12428, 12428, 12428, 12400],
    ["all of these in turn", 137079, 79162, 16202, 114600, 18929, 15609],
  ]);
});

test.each([3000, 6000, 12000, 20000, 24000, 32000, 48000])("with room for %i tokens' bytes no trace reads more than by plain LRU", (budget) => {
  for (const [name, trace] of traces) {
    const [byAge, own] = [sum(replayLru(trace, costs(budget))), sum(replay(trace, costs(budget)))];
    expect([name, Math.min(own, byAge)]).toEqual([name, own]);
  }
}, 60_000);
