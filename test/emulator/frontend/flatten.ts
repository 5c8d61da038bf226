/** Shader files as one text, as the build passes them to Apple's compiler (swift/Sources/FlattenShaders; a test compares the two). */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * A shader file with every project header in its place, each once; `#line` keeps the compiler's messages correct. `nameOf`
 * gives the name of a file there; files in `seen` are left out, and the included ones are added to it.
 */
export function flatten(path: string, nameOf: (path: string) => string, seen: Set<string>): string {
  if (seen.has(path)) return "";
  seen.add(path);
  const name = nameOf(path);
  let text = `#line 1 "${name}"\n`;
  for (const [index, line] of readFileSync(path, "utf8").split("\n").entries()) {
    const header = /^\s*#\s*include\s+"([^"]+)"/.exec(line)?.[1];
    if (header === undefined) {
      text += `${line}\n`;
    } else {
      const inner = flatten(resolve(dirname(path), header), nameOf, seen);
      text += inner === "" ? "\n" : `${inner}#line ${index + 2} "${name}"\n`;
    }
  }
  return text;
}
