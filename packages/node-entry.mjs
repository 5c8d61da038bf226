// The entry of `gated-delta` for Node: an error saying that Bun is needed. Otherwise Node would complain about `bun:ffi`.

/** Names that a module of dist/ exports itself, and the modules whose names it re-exports. */
function exportsOf(text) {
  const names = [];
  for (const [, list] of text.matchAll(/^export \{([^}]*)\}/gm)) {
    for (const one of list.split(",").map((part) => part.trim()).filter((part) => part !== "")) names.push(one.split(/\s+as\s+/).at(-1));
  }
  for (const [, name] of text.matchAll(/^export (?:async )?(?:function\*?|class|const|let) (\w+)/gm)) names.push(name);
  const all = [...text.matchAll(/^export \* from "(.+)";/gm)].map(([, module]) => module);
  return { names, all };
}

/** All names that an entry exports; `read` gives a module's text by its path from the entry. */
export function namesOf(text, read) {
  const { names, all } = exportsOf(text);
  return [...new Set([...names, ...all.flatMap((module) => exportsOf(read(module)).names)])].sort();
}

/**
 * The module that replaces an entry under the condition `node`. A module's names are bound before it runs, so it has all of
 * them. If something else applies that condition but runs in Bun, it gets the entry itself.
 */
export function nodeEntry(file, names, { engines }) {
  const needed = engines.bun.replace(/^\D*/, "");
  return `import { createRequire } from "node:module";
if (process.versions.bun === undefined) {
  throw new Error(\`gated-delta needs Bun ${needed} or later, and this is Node.js \${process.versions.node}: run the program with "bun" instead of "node" (https://bun.sh)\`);
}
export const { ${names.join(", ")} } = createRequire(import.meta.url)("./${file}");
`;
}
