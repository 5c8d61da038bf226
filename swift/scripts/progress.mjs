// The progress of a long step: on a terminal one line with a moving bar, elsewhere (logs) a line now and then.
import { clearStatus, elapsed, say, showStatus } from "./report.mjs";

const width = 24;
const everyFrame = 200;
const everyLine = 20_000;

/** A bar for `done` of `total`; without a total, one that moves back and forth with `ticks`. */
export function bar(done, total, ticks = 0) {
  if (total > 0) {
    const filled = Math.floor((Math.min(done, total) / total) * width);
    return `[${"#".repeat(filled)}${".".repeat(width - filled)}]`;
  }
  const block = 4;
  const turn = ticks % (2 * (width - block));
  const at = turn < width - block ? turn : 2 * (width - block) - turn;
  return `[${".".repeat(at)}${"#".repeat(block)}${".".repeat(width - block - at)}]`;
}

/** Reads the lines "[3/57] name" of a build: `take` gets each line, `progress` tells how far it is. */
export function stepsOf() {
  let steps = {};
  return {
    take(line) {
      const step = /^\[(\d+)\/(\d+)\] (.*)/.exec(line);
      if (step !== null) steps = { done: Number(step[1]), total: Number(step[2]), text: `${step[1]} of ${step[2]}, ${step[3]}` };
      return step !== null;
    },
    progress: () => steps,
  };
}

/**
 * Runs `work` and shows its progress, which `progress` returns: `{ done, total, text }`, all optional; without a total the bar only
 * moves. In a log, the first line comes after 20 seconds, so a short step shows nothing.
 */
export async function withProgress(what, work, progress = () => ({})) {
  const since = performance.now();
  const terminal = process.stderr.isTTY === true;
  let ticks = 0;
  const show = () => {
    const { done = 0, total = 0, text = "" } = progress();
    const more = text === "" ? "" : `: ${text}`;
    if (terminal) showStatus(`${bar(done, total, ticks++)} ${what}${more} (${elapsed(since)})`);
    else say(`  ${what}${more} (${elapsed(since)})`);
  };
  const timer = setInterval(show, terminal ? everyFrame : everyLine);
  timer.unref();
  try {
    return await work();
  } finally {
    clearInterval(timer);
    clearStatus();
  }
}
