// Writes the kernels' text, flattened, as one raw string into swift/Sources/MetalBackend/KernelSource.swift:
// Metal's runtime compiler resolves no includes of a project's own, and SwiftPM does not compile .metal files.
// `--check` compares instead of writing, and exits with 1 where the file is out of date.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "../..");

/** The generated file. */
export const target = join(root, "swift/Sources/MetalBackend/KernelSource.swift");

/**
 * A shader file with every project header in its place, each once; `#line` keeps the compiler's messages true. `nameOf`
 * gives the name of a file there; the files that are in `seen` are left out, and those that were taken are added.
 */
export function flatten(path, nameOf, seen) {
  if (seen.has(path)) return "";
  seen.add(path);
  const name = nameOf(path);
  const lines = readFileSync(path, "utf8").split("\n");
  let text = `#line 1 "${name}"\n`;
  lines.forEach((line, index) => {
    const include = /^\s*#\s*include\s+"([^"]+)"/.exec(line);
    if (include === null) {
      text += line + "\n";
    } else {
      const inner = flatten(resolve(dirname(path), include[1]), nameOf, seen);
      text += inner === "" ? "\n" : `${inner}#line ${index + 2} "${name}"\n`;
    }
  });
  return text;
}

/** The generated file's text, from the shaders in `folder`. */
export function kernelSource(folder = join(root, "shaders")) {
  const seen = new Set();
  const files = readdirSync(folder).filter((name) => name.endsWith(".metal")).sort();
  const nameOf = (path) => `shaders/${relative(folder, path)}`;
  const text = files.map((name) => flatten(join(folder, name), nameOf, seen)).join("");
  if (text.includes('"""##')) throw new Error('a shader contains """##, which would end the Swift string');
  return (
    "// Generated from shaders/ by swift/scripts/shader-source.mjs. Do not edit.\n\n" +
    '/// Every kernel, as Metal\'s runtime compiler takes it.\nlet kernelSource = ##"""\n' +
    text.trimEnd() +
    '\n"""##\n'
  );
}

function main() {
  const wanted = kernelSource();
  if (!process.argv.includes("--check")) {
    writeFileSync(target, wanted);
    return;
  }
  let found = "";
  try {
    found = readFileSync(target, "utf8");
  } catch {
    // A missing file is out of date like any other.
  }
  if (found !== wanted) {
    console.error(`${relative(root, target)} is out of date: run node swift/scripts/shader-source.mjs`);
    process.exitCode = 1;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
