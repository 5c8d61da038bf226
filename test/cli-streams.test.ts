/** The command whose output goes to a full disk, to a pipe without a reader, or to a narrow terminal. */
import { describe, expect, test } from "bun:test";
import { openSync } from "node:fs";
import { join } from "node:path";

const model = join(import.meta.dir, "golden/models/qwen3_5-mlx-mixed");
const program = [process.execPath, join(import.meta.dir, "../lib/cli/main.ts")];
const generate = [...program, "generate", model, "5 6 7", "--ids", "--max-tokens", "4", "--backend", "cpu", "--threads", "1"];

describe.skipIf(process.platform !== "linux")("a full disk", () => {
  test.each([
    ["an answer", generate],
    ["lines of JSON", [...generate, "--json"]],
    ["a text of help", [...program, "--help"]],
  ])("under %s is one line, and the status 2", (_, args) => {
    const { exitCode, stderr } = Bun.spawnSync([...args, "--quiet"], { stdout: openSync("/dev/full", "w"), stderr: "pipe" });
    expect([exitCode, stderr.toString()]).toEqual([2, expect.stringMatching(/^gated-delta: the standard output: ENOSPC: .*\n$/)]);
  });

  test("under the standard error changes nothing", () => {
    const { exitCode, stdout } = Bun.spawnSync(generate, { stdout: "pipe", stderr: openSync("/dev/full", "w") });
    expect([exitCode, stdout.toString()]).toEqual([0, expect.stringMatching(/^\d+( \d+){3}\n$/)]);
  });
});

describe("a standard error without a reader", () => {
  /** A shell's output: the standard output of a command line, and then its status. */
  const printed = (script: string, args: readonly string[]) => Bun.spawnSync(["sh", "-c", script, "sh", ...args], { stdout: "pipe", stderr: "pipe" }).stdout.toString();

  test.each([
    ["a closed one", '"$@" 2>&-; echo $?'],
    ["a pipe whose reader has ended", 'exec 3>&1; { sleep 1; "$@" 2>&1 >&3; echo $? >&3; } | true'],
  ])("changes no status: %s", (_, script) => {
    expect(printed(script, generate)).toMatch(/^\d+( \d+){3}\n0\n$/);
    expect(printed(script, [...program, "generate", "no such folder", "a"])).toBe("2\n");
  });
});

test.each([50, 40, 12])("a terminal of %p columns has no line longer than itself", async (cols) => {
  let shown = "";
  const args = [...program, "generate", model, "1 2 3 4 5 6 7 8 ".repeat(400), "--ids", "--max-tokens", "1", "--backend", "cpu", "--threads", "1"];
  const child = Bun.spawn(args, { terminal: { cols, rows: 24, data: (_, part) => void (shown += new TextDecoder().decode(part)) } });
  expect(await child.exited).toBe(0);
  const bars = [...shown.matchAll(/\r\x1b\[K([^\r\n]*)/g)].map(([, bar]) => bar!).filter((bar) => bar.includes(" of "));
  expect(bars.length).toBeGreaterThan(2);
  for (const bar of bars) expect(bar.length).toBeLessThan(cols);
  expect(bars.some((bar) => /^\[=+ *\]/.test(bar))).toBe(cols > 12);
  if (cols === 50) expect(bars.at(-1)).toMatch(/^\[=+ *\] \d+ of 3200 tokens of the prompt$/);
});
