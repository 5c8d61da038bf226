// The messages of set-up: progress on stderr (stdout is for the program that is started afterwards), and failures as one line.

/** An expected failure: one line that says what is wrong and what to do. Other errors are bugs and are shown with their stacks. */
export class Failure extends Error {}

const started = performance.now();

/** True while a status line is on the terminal's last line. */
let hasStatus = false;

/** Writes one progress line. */
export function say(message) {
  clearStatus();
  process.stderr.write(`gated-delta: ${message}\n`);
}

/** Shows a line that the next one replaces; on terminals only. */
export function showStatus(text) {
  // Cut to the terminal's width: a line that wraps could not be taken back.
  process.stderr.write(`\r\x1b[2K${text.slice(0, (process.stderr.columns ?? 80) - 1)}`);
  hasStatus = true;
}

export function clearStatus() {
  if (hasStatus) process.stderr.write("\r\x1b[2K");
  hasStatus = false;
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
