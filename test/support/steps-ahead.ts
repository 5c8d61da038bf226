/** Counts the steps that models run before their tokens are known. */
import { RunAhead } from "../../lib/model/run-ahead.ts";
import { replace } from "./replace.ts";
import type { Method } from "./replace.ts";

/** Counts the steps that are committed, and those whose results are used, until it is disposed of. */
export function countStepsAhead() {
  const counts = { committed: 0, taken: 0 };
  const stack = new DisposableStack();
  stack.use(replace(RunAhead.prototype, "run", (original) => function (this: RunAhead, ...args: Parameters<RunAhead["run"]>) {
    const ticket = (original as RunAhead["run"]).apply(this, args);
    if (ticket !== undefined) counts.committed++;
    return ticket;
  } as Method));
  stack.use(replace(RunAhead.prototype, "take", (original) => function (this: RunAhead, ...args: Parameters<RunAhead["take"]>) {
    const rows = (original as RunAhead["take"]).apply(this, args);
    if (rows !== undefined) counts.taken++;
    return rows;
  } as Method));
  return Object.assign(counts, { [Symbol.dispose]: () => stack.dispose() });
}
