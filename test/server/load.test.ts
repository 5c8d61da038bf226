/** A share of the load that `npm run test:server -- load` puts on a server. */
import { expect, test } from "bun:test";
import { runLoad } from "./load/load.ts";

test("150 clients, of which some stall, leave, and send halves and garbage", async () => {
  const { counts, end } = await runLoad({ seed: 19, clients: 150, seconds: 3, every: 1000, onFigures: () => {} });
  const of = (text: RegExp): number => [...counts].reduce((sum, [what, count]) => sum + (text.test(what) ? count : 0), 0);
  expect(of(/the cold run's answer/)).toBeGreaterThan(50);
  for (const kind of ["whole", "streamed", "stalled", "left", "half", "garbage"]) expect([kind, of(new RegExp(`^${kind}`))]).not.toEqual([kind, 0]);
  expect(end.hits).toBeGreaterThan(0);
}, 240_000);
