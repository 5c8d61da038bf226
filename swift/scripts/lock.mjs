// One set-up at a time per folder, even when an earlier one was killed while it held the lock.
//
// Lock files are numbered. A free, released or abandoned lock N is taken by creating N+1, which succeeds for only one
// process; the highest number is never removed, so that no process takes over a lock that another has taken meanwhile.
import { linkSync, mkdirSync, readFileSync, readdirSync, rmSync, utimesSync, statSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { elapsed, say } from "./report.mjs";

const heartbeat = 2000;
const silence = 30_000;
const patience = 10_000;

/** Identifies the processes whose numbers are valid here: this boot of this machine (and container). */
const neighbourhood = (() => {
  try {
    return `${hostname()}/${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}/${statSync("/proc/self/ns/pid").ino}`;
  } catch {
    return hostname();
  }
})();

/**
 * The start time of a process, which distinguishes processes with the same number: "dead" for one that was killed and not yet
 * collected by its parent, empty if it is unknown.
 */
function birth(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return "ZX".includes(fields[0]) ? "dead" : fields[19];
  } catch {
    return "";
  }
}

function alive(holder, file) {
  if (holder.neighbourhood !== neighbourhood) {
    // Another container or machine: its processes cannot be seen, but a live holder touches its file.
    try {
      return Date.now() - statSync(file).mtimeMs < silence;
    } catch {
      return true;
    }
  }
  try {
    process.kill(holder.pid, 0);
  } catch (error) {
    if (error.code !== "EPERM") return false;
  }
  return birth(holder.pid) === holder.birth;
}

function highest(folder) {
  let top = 0;
  for (const name of readdirSync(folder)) {
    if (/^\d+$/.test(name)) top = Math.max(top, Number(name));
  }
  return top;
}

/** The holder named in a lock file; null when it is released (or cut off, which only a release can be); undefined when the file has just gone. */
function holderOf(file) {
  try {
    const holder = JSON.parse(readFileSync(file, "utf8"));
    return holder.released === true ? null : holder;
  } catch (error) {
    return error.code === "ENOENT" ? undefined : null;
  }
}

/** One attempt: the number taken, or the live holder. */
function attempt(folder) {
  const top = highest(folder);
  if (top > 0) {
    const file = join(folder, String(top));
    const holder = holderOf(file);
    if (holder === undefined) return { retry: true };
    if (holder !== null && alive(holder, file)) return { holder };
  }
  const temporary = join(folder, `new-${process.pid}-${Math.random().toString(36).slice(2)}`);
  writeFileSync(temporary, JSON.stringify({ pid: process.pid, birth: birth(process.pid), neighbourhood }));
  try {
    linkSync(temporary, join(folder, String(top + 1)));
  } catch (error) {
    if (error.code === "EEXIST") return { retry: true };
    throw error;
  } finally {
    rmSync(temporary, { force: true });
  }
  if (highest(folder) !== top + 1) {
    // The number had been used and removed before: a higher one is the lock now.
    rmSync(join(folder, String(top + 1)), { force: true });
    return { retry: true };
  }
  return { number: top + 1 };
}

function clear(folder, number) {
  for (const name of readdirSync(folder)) {
    if (/^\d+$/.test(name) && Number(name) < number) rmSync(join(folder, name), { force: true });
    if (name.startsWith("new-")) {
      try {
        if (Date.now() - statSync(join(folder, name)).mtimeMs > silence) rmSync(join(folder, name), { force: true });
      } catch {
        // Its owner removed it meanwhile.
      }
    }
  }
}

/** Runs `work` while holding the lock of `folder` (made if missing). Waits for another holder, which it names. */
export async function withLock(folder, what, work) {
  mkdirSync(folder, { recursive: true });
  let since = 0;
  let said = 0;
  let taken;
  for (;;) {
    taken = attempt(folder);
    if (taken.number !== undefined) break;
    if (taken.holder !== undefined && (said === 0 || performance.now() - said > patience)) {
      const waited = said === 0 ? "" : ` (${elapsed(since)})`;
      said = performance.now();
      since ||= said;
      say(`waiting for another ${what} (process ${taken.holder.pid}) to finish${waited}`);
    }
    await new Promise((resolve) => setTimeout(resolve, taken.retry ? 20 : 250));
  }
  clear(folder, taken.number);
  const file = join(folder, String(taken.number));
  const timer = setInterval(() => {
    try {
      utimesSync(file, new Date(), new Date());
    } catch {
      // The folder was removed under us; the work will notice.
    }
  }, heartbeat);
  timer.unref();
  try {
    return await work();
  } finally {
    clearInterval(timer);
    try {
      writeFileSync(file, JSON.stringify({ released: true }));
    } catch {
      // As above.
    }
  }
}
