// `node test/run/air.mjs FILE.ll...`: which hot kernels keep a local array in memory. The files are what Apple's compiler
// makes of the shaders (`xcrun metal -S -emit-llvm`). Arrays of these kernels should be registers: a remaining `alloca`
// is an array that the compiler could not split, which costs a kernel its speed, and matrices their contents.
import { readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

const hot = /^gd_(decode|prefill|step|project|conv|norm|rms_norm|attention)/;

/** Hot kernels with an `alloca`, in order, each with its first `alloca`. Throws if the text has no hot kernel at all. */
export function allocas(text) {
  const found = [];
  let kernel = null;
  let kernels = 0;
  for (const line of text.split("\n")) {
    const name = /^define\b.*?@"?([\w.$]+)"?\s*\(/.exec(line)?.[1];
    if (name !== undefined) {
      kernel = hot.test(name) ? name : null;
      if (kernel !== null) kernels += 1;
    } else if (line.startsWith("}")) {
      kernel = null;
    } else if (kernel !== null && /^\s*%\S+ = alloca\b/.test(line)) {
      found.push({ kernel, line: line.trim() });
      kernel = null;
    }
  }
  if (kernels === 0) throw new Error("no kernel of this project is in the text");
  return found;
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  for (const file of process.argv.slice(2)) {
    for (const { kernel, line } of allocas(readFileSync(file, "utf8"))) {
      console.error(`${file}: ${kernel} keeps a local array in memory: ${line}`);
      process.exitCode = 1;
    }
  }
}
