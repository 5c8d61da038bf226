// Child processes: output captured or shown, ended when this process ends.
import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";

/** The file of the program `name` on PATH, or null. */
export function which(name, path = process.env.PATH ?? "") {
  for (const folder of path.split(delimiter)) {
    if (folder === "") continue;
    const file = join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      if (statSync(file).isFile()) return file;
    } catch {
      // Missing, or no permission to run it: the next folder may have it.
    }
  }
  return null;
}

/** On Linux a child ends when its parent is killed: an unfinished npm or apt-get must not run next to a later one. */
function tied(command, args) {
  const setpriv = process.platform === "linux" ? which("setpriv") : null;
  return setpriv === null ? [command, args] : [setpriv, ["--pdeathsig", "KILL", command, ...args]];
}

/**
 * Runs a command to its end. `output`: "capture" keeps it, "inherit" shows it (stdout and stderr both on stderr unless
 * `stdout` says otherwise), a function gets each whole line as it comes. A failing command does not throw. One that runs for
 * longer than `limit` milliseconds is ended, with `overtime: true` in the result.
 */
export function run(command, args, { cwd, env = process.env, output = "capture", input = "ignore", stdout, limit } = {}) {
  const [file, fileArgs] = tied(command, args);
  const pipe = output === "inherit" ? (stdout ?? 2) : "pipe";
  return new Promise((resolve) => {
    const child = spawn(file, fileArgs, { cwd, env, stdio: [input, pipe, output === "inherit" ? 2 : "pipe"] });
    const parts = [];
    let rest = "";
    const take = (text) => {
      parts.push(text);
      if (typeof output !== "function") return;
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      for (const line of lines) output(line);
    };
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8");
      stream?.on("data", take);
    }
    let overtime = false;
    const end = () => {
      overtime = true;
      child.kill("SIGKILL");
      // The command's own children may hold its output open for ever.
      for (const stream of [child.stdout, child.stderr]) stream?.destroy();
    };
    const timer = limit === undefined ? undefined : setTimeout(end, limit);
    child.on("error", (error) => resolve({ code: 127, signal: null, text: `${command}: ${error.message}` }));
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      if (rest !== "" && typeof output === "function") output(rest);
      resolve({ code: code ?? 1, signal, text: parts.join(""), overtime });
    });
  });
}

/** The trimmed standard output of a short command, or null if it fails. */
export function quick(command, args, options = {}) {
  const result = spawnSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"], ...options });
  return result.status === 0 ? result.stdout.trim() : null;
}

/** The last lines of a command's output, indented, for the lines above a failure. */
export function tail(text, lines = 15) {
  return text.trimEnd().split("\n").slice(-lines).map((line) => `  | ${line}`).join("\n");
}
