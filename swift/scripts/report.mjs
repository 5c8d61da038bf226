// The messages of set-up: progress on stderr (stdout is for the program that is started afterwards), and failures as one line.

/** An expected failure: one line that says what is wrong and what to do. Other errors are bugs and are shown with their stacks. */
export class Failure extends Error {}

const started = performance.now();

/** Writes one progress line. */
export function say(message) {
  process.stderr.write(`gated-delta: ${message}\n`);
}

/** Time since this process began, as text: "7 s", "3 min 20 s". */
export function elapsed(since = started) {
  const seconds = Math.round((performance.now() - since) / 1000);
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** Bytes as text. */
export function megabytes(bytes) {
  return bytes < 1e9 ? `${Math.round(bytes / 1e6)} MB` : `${(bytes / 1e9).toFixed(1)} GB`;
}

/**
 * Runs `work` and prints a line every few seconds, whether or not stderr is a terminal: a log without lines for a minute
 * looks like a hang. `detail` may add how far it is; the first line comes after `every` ms only, so short
 * steps stay quiet.
 */
export async function withProgress(what, work, { detail = () => "", every = 3000 } = {}) {
  const since = performance.now();
  const timer = setInterval(() => {
    const more = detail();
    say(`  ${what}${more === "" ? "" : `: ${more}`} (${elapsed(since)})`);
  }, every);
  timer.unref();
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}

/** Runs a command's main function: its result is the exit code, a Failure is one line and exit code 1. */
export async function runMain(main) {
  try {
    process.exitCode = await main();
  } catch (error) {
    if (!(error instanceof Failure) && error?.code !== "ENOSPC" && error?.code !== "EACCES" && error?.code !== "EROFS") throw error;
    say(error instanceof Failure ? error.message : systemFailure(error));
    process.exitCode = 1;
  }
}

/** The message of a system error whose cause is the machine: a full disk, no permission, a read-only file system. */
function systemFailure(error) {
  const where = error.path === undefined ? "" : ` (${error.path})`;
  if (error.code === "ENOSPC") return `the disk is full${where}: free some space and run the same command again.`;
  return `no permission to write${where}: make it writable for this user, or set GATED_DELTA_CACHE to a folder that is.`;
}
