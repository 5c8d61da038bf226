// The long run: `bun test/experts/long.ts [--cases N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal]`.
import { longRun } from "../support/long-run.ts";
import { ExpertCases } from "./runner.ts";

await longRun({
  path: import.meta.path,
  what: "cases",
  count: 10_000,
  machine: ({ device }) => new ExpertCases(device),
  verdict: ["every number is near float64, and every bit the same in any company", "not every number is right"],
});
