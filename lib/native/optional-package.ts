/** Packages that only some programs need, and install themselves. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { UnsupportedError } from "../errors.ts";
import { isCompiled } from "./candidates.ts";

/**
 * The main file of a package, found as modules are found from here. A single-file program finds none there, so it also looks in the
 * working directory. No other program runs code of a folder that happens to be the working directory.
 *
 * @throws {UnsupportedError} that says how to install it.
 */
export function optionalPackage(op: string, name: string): string {
  for (const find of isCompiled() ? [fromHere, inWorkingDirectory] : [fromHere]) {
    try {
      return find(name);
    } catch {
      // It may be in the other place.
    }
  }
  throw new UnsupportedError({ op, expected: `the package ${name}: \`bun add ${name}\``, received: "no such package" });
}

function fromHere(name: string): string {
  return Bun.resolveSync(name, import.meta.dir);
}

function inWorkingDirectory(name: string): string {
  const folder = join(process.cwd(), "node_modules", name);
  const { main } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { readonly main: string };
  return join(folder, main);
}
