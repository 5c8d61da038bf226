/** The command lines of the long runs: the same options everywhere, and a record of the run. */
import { describe, expect, test } from "bun:test";
import { runBun } from "./support/children.ts";

const scripts = [
  ["state-programs", "programs", ["--short-files"]],
  ["model-schedules", "schedules", []],
  ["experts", "cases", []],
  ["session-schedules", "schedules", ["--seconds", "600"]],
  ["session-pressure", "schedules", []],
  ["gguf-files", "programs", []],
] as const;
const counts = (text: string) => [...text.matchAll(/^ {2}([^:]+: \d+)$/gm)].map(([, line]) => line!);

describe.each(scripts)("%s", (folder, what, own) => {
  const script = `test/${folder}/long.ts`;
  const options = [`--${what}`, "4", "--seed", "7", "--first", "2", "--backend", "cpu", ...own];

  test("runs what it is told to, in one process or several", () => {
    const [one, two] = [[], ["--jobs", "2"]].map((jobs) => runBun({}, script, ...options, ...jobs));
    for (const { ok, text } of [one!, two!]) {
      expect([ok, text]).toEqual([true, expect.stringMatching(new RegExp(`^command: bun ${script} --${what} 4 --seed 7 [^\\n]*\\nprocessor: [^\\n]*; backend: cpu [^\\n]*\\n4 ${what} of seed 7 in \\d+ s: (?:all|every)`))]);
    }
    expect(counts(one!.text).length).toBeGreaterThan(3);
    // Sessions run at the same time, so how far each gets before another one ends varies.
    if (!folder.startsWith("session-")) expect(counts(two!.text)).toEqual(counts(one!.text));
  });

  test("refuses options that are none", () => {
    for (const [wrong, words] of [[["--seed", "x"], "--seed takes a whole number, not x"], [["--jobs", "-1"], "--jobs"], [["--other"], "--other"]] as const) {
      const { ok, text } = runBun({}, script, ...wrong);
      expect([ok, text]).toEqual([false, expect.stringContaining(words)]);
    }
  });
});
