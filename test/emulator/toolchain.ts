/** The C++ compiler: clang 17 or newer, preferably the one in the project's Swift toolchain. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

let found: string | undefined;

function candidates(): string[] {
  const list: string[] = [];
  const forced = process.env["GATED_DELTA_CLANG"];
  if (forced !== undefined && forced !== "") return [forced];
  const cache = join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "gated-delta");
  if (existsSync(cache)) {
    for (const name of readdirSync(cache).sort().reverse()) {
      for (const inner of ["usr/libexec/swift/bin", "usr/bin"]) list.push(join(cache, name, inner, "clang++"));
    }
  }
  list.push("clang++", ...["21", "20", "19", "18", "17"].map((v) => `clang++-${v}`), "/usr/libexec/swift/bin/clang++");
  return list;
}

/** The clang++ to use. If there is none, throws an error that names the places tried. */
export function clang(): string {
  if (found !== undefined) return found;
  const tried = candidates();
  for (const path of tried) {
    if (path.includes("/") && !existsSync(path)) continue;
    const version = spawnSync(path, ["--version"], { encoding: "utf8" });
    const major = /clang version (\d+)/.exec(version.stdout ?? "")?.[1];
    if (version.status === 0 && major !== undefined && Number(major) >= 17) {
      found = path;
      return path;
    }
  }
  throw new Error(`no clang++ of version 17 or newer; set GATED_DELTA_CLANG. Tried: ${tried.join(", ")}`);
}
