// The Debian mirror for the toolchain's packages: this system's own. A company's proxy or a country's mirror is
// used that way, and the project contains no address.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

/** `{uri, suite, components}` of each binary source in a one-line-style file (`deb [options] uri suite component…`). */
export function parseList(text) {
  const sources = [];
  for (const line of text.split("\n")) {
    const match = /^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+([^#]+)/.exec(line);
    if (match !== null) sources.push({ uri: match[1], suite: match[2], components: match[3].trim().split(/\s+/) });
  }
  return sources;
}

/** The same of a deb822-style file: stanzas of `Field: value`, whose values continue in indented lines. */
export function parseSources(text) {
  const sources = [];
  for (const stanza of text.replace(/^#.*\n?/gm, "").split(/\n\s*\n/)) {
    const words = (field) => (new RegExp(`^${field}:((?:.*)(?:\\n[ \\t].*)*)`, "im").exec(stanza)?.[1] ?? "").trim().split(/\s+/).filter((word) => word !== "");
    if (!words("Types").includes("deb") || words("Enabled")[0]?.toLowerCase() === "no") continue;
    for (const uri of words("URIs")) {
      for (const suite of words("Suites")) sources.push({ uri, suite, components: words("Components") });
    }
  }
  return sources;
}

/** The mirror of the release itself among a Debian system's sources (not of its security or backports archive), or null. */
export function chooseMirror(sources, release) {
  const suites = [release, "stable", "oldstable", "testing", "unstable", "sid"];
  return sources.find(({ suite, components }) => suites.includes(suite) && components.includes("main"))?.uri ?? null;
}

function read(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function systemSources() {
  const folder = "/etc/apt/sources.list.d";
  let names = [];
  try {
    names = readdirSync(folder).sort();
  } catch {
    // No such folder: one file is enough.
  }
  return [
    ...parseList(read("/etc/apt/sources.list")),
    ...names.flatMap((name) => {
      if (name.endsWith(".sources")) return parseSources(read(join(folder, name)));
      return name.endsWith(".list") ? parseList(read(join(folder, name))) : [];
    }),
  ];
}

/**
 * The Debian mirror: the one that GATED_DELTA_DEBIAN_MIRROR names, else a Debian system's own. Null if neither is known: a
 * derivative of Debian has mirrors of its own.
 */
export function mirror(env = process.env) {
  const named = env.GATED_DELTA_DEBIAN_MIRROR;
  if (named !== undefined && named !== "") return named;
  const system = read("/etc/os-release");
  if (!/^ID="?debian"?$/m.test(system)) return null;
  const release = /^VERSION_CODENAME="?([^"\n]*)"?$/m.exec(system)?.[1];
  return chooseMirror(systemSources(), release ?? "stable");
}
