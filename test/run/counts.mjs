// The numbers of passed and failed tests according to a runner's output.

/** Swift Testing's xunit file: one <testsuite> whose attributes are the counts. Null if it has no count. */
export function countXunit(text) {
  let found = false;
  let tests = 0;
  let failed = 0;
  let skipped = 0;
  for (const [tag] of text.matchAll(/<testsuite\s[^>]*>/g)) {
    const attribute = (name) => Number(new RegExp(`\\s${name}="(\\d+)"`).exec(tag)?.[1] ?? 0);
    found = true;
    tests += attribute("tests");
    failed += attribute("failures") + attribute("errors");
    skipped += attribute("skipped");
  }
  // One test can fail several times: its failures are recorded as issues.
  failed = Math.min(failed, tests);
  return found ? { passed: tests - failed - skipped, failed } : null;
}

/** Swift Testing's closing line, and the lines of the tests that failed. Null when the run did not get so far. */
export function countSwiftTesting(text) {
  const run = [...text.matchAll(/Test run with (\d+) tests?.* (passed|failed) after/g)].at(-1);
  if (run === undefined) return null;
  // "Test name() failed after …" and `Test "name" failed after …`; a suite's line counts its tests' issues again.
  const failed = run[2] === "passed" ? 0 : Math.max(1, [...text.matchAll(/^\S+ +Test (?!run with).* failed after /gm)].length);
  return { passed: Math.max(0, Number(run[1]) - failed), failed };
}

/** Bun's closing lines: " 12 pass", " 1 fail", " 1 error" (an exception between tests). Null when the run did not get so far. */
export function countBun(text) {
  const last = (word) => [...text.matchAll(new RegExp(`^\\s*(\\d+) ${word}s?$`, "gm"))].at(-1)?.[1];
  const passed = last("pass");
  const failed = last("fail");
  if (passed === undefined && failed === undefined) return null;
  return { passed: Number(passed ?? 0), failed: Number(failed ?? 0) + Number(last("error") ?? 0), skipped: Number(last("skip") ?? 0) };
}

/**
 * The counts of a runner: its own numbers, and one more failure if it ended badly without reporting any (a crash, a
 * timeout, no tests at all: skipped tests count as tests).
 */
export function settle(counted, code) {
  const { passed, failed, skipped = 0 } = counted ?? { passed: 0, failed: 0 };
  const silent = failed === 0 && (code !== 0 || passed + skipped === 0);
  return { passed, failed: silent ? 1 : failed };
}
