// `gated-delta`, the package that programs import: JavaScript, declarations and the sources to which their maps refer.
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { run } from "../swift/scripts/exec.mjs";
import { Failure } from "../swift/scripts/report.mjs";
import { rootFolder } from "../swift/scripts/root.mjs";
import { namesOf, nodeEntry } from "./node-entry.mjs";
import { cloneManifest, outputFolder, packageName, platforms, sharedFields } from "./platforms.mjs";
import { tool } from "./tools.mjs";

/** The layer and the model that `gated-delta demo` uses; `tinyModel` returns the model. */
const demonstrated = ["layer-bf16.safetensors", "models/qwen3_5-mlx-mixed"].map((path) => `test/golden/${path}`);

/** Files in addition to the compiled ones. */
const copied = ["README.md", "LICENSE", "CHANGELOG.md", "lib", ...demonstrated];

/**
 * Declarations of external types. A consumer's `lib` may be older than `using` and Float16Array, and it may have neither
 * the DOM's types nor Bun's, of which the declarations name a few; an interface that is declared twice is merged.
 */
const globals = ["AbortSignal {\n  readonly aborted: boolean;", "Request {\n  readonly method: string;", "Response {\n  readonly status: number;"]
  .map((declaration) => `/** In full where the DOM's, Node's or Bun's types are. */\ninterface ${declaration}\n}\n`)
  .join("");

/** The lines that include these, at the head of an entry in dist/. */
function references(entry) {
  const path = relative(dirname(entry), "dist/globals.d.ts");
  const libraries = ["esnext.disposable", "esnext.float16"].map((name) => `/// <reference lib="${name}" />\n`);
  return `${libraries.join("")}/// <reference path="${path.startsWith(".") ? path : `./${path}`}" />\n`;
}

/** Makes the package's folder and returns its path. */
export async function buildMainPackage() {
  const target = join(outputFolder, "gated-delta");
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const manifest = packedManifest(cloneManifest());
  await compile(target);
  finishModules(target, Object.values(manifest.exports).flatMap((entry) => entry.types ?? []));
  for (const entry of Object.values(manifest.exports)) if (entry.node !== undefined) writeNodeEntry(target, entry, manifest);
  for (const path of copied) cpSync(join(rootFolder, path), join(target, path), { recursive: true });
  mkdirSync(join(target, "bin"));
  cpSync(join(rootFolder, "packages", "bin.mjs"), join(target, "bin", "gated-delta.mjs"));
  writeFileSync(join(target, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  return target;
}

/**
 * The clone's manifest as it is published. In a clone, `exports` names the TypeScript, which Bun runs directly; in the package,
 * each entry names the file compiled from it.
 */
export function packedManifest(clone, env = process.env) {
  const { name, description, keywords, type, sideEffects, dependencies, peerDependencies, peerDependenciesMeta } = clone;
  const optionalDependencies = Object.fromEntries(platforms.map((platform) => [packageName(platform), clone.version]));
  const exports = Object.fromEntries(Object.entries(clone.exports).map(([path, file]) => [path, packedExport(file)]));
  return {
    name,
    description,
    keywords,
    ...sharedFields(clone, undefined, env),
    type,
    sideEffects,
    exports,
    types: exports["."].types,
    bin: { "gated-delta": "./bin/gated-delta.mjs" },
    files: ["bin", "dist", "lib", "test/golden", "CHANGELOG.md"],
    dependencies,
    peerDependencies,
    peerDependenciesMeta,
    optionalDependencies,
  };
}

function packedExport(file) {
  const match = /^\.\/lib\/(.+)\.ts$/.exec(file);
  if (match === null) return file;
  // Both conditions apply in Bun: the first match counts.
  const compiled = `./dist/${match[1]}.js`;
  return { types: `./dist/${match[1]}.d.ts`, bun: compiled, node: `./dist/${match[1]}.node.js`, default: compiled };
}

/** Compiles lib/ with the TypeScript compiler into dist/. */
async function compile(target) {
  const staged = join(target, "staged");
  const options = {
    noEmit: false,
    allowImportingTsExtensions: false,
    rewriteRelativeImportExtensions: true,
    allowJs: false,
    declaration: true,
    declarationMap: true,
    sourceMap: true,
    rootDir: rootFolder,
    outDir: staged,
    typeRoots: [join(rootFolder, "node_modules")],
  };
  const project = join(outputFolder, "tsconfig.json");
  const text = { extends: join(rootFolder, "tsconfig.json"), compilerOptions: options, include: [join(rootFolder, "lib")] };
  writeFileSync(project, JSON.stringify(text));
  const { code, text: output } = await run(process.execPath, [tool("typescript", "bin/tsc"), "--project", project]);
  if (code !== 0) throw new Failure(`lib/ could not be compiled:\n${output}`);
  renameSync(join(staged, "lib"), join(target, "dist"));
  // Modules import HTML pages as text.
  const lib = join(rootFolder, "lib");
  for (const path of filesBelow(lib)) if (path.endsWith(".html")) cpSync(path, join(target, "dist", relative(lib, path)));
  rmSync(staged, { recursive: true });
}

function writeNodeEntry(target, entry, manifest) {
  const path = join(target, entry.default);
  const names = namesOf(readFileSync(path, "utf8"), (module) => readFileSync(join(dirname(path), module), "utf8"));
  writeFileSync(join(target, entry.node), nodeEntry(basename(path), names, manifest));
}

function* filesBelow(folder) {
  for (const name of readdirSync(folder).sort()) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) yield* filesBelow(path);
    else yield path;
  }
}

/** `./x.ts`, as modules and declarations name each other in the sources. */
const specifier = /(\b(?:from|import|require)\s*\(?\s*")(\.{1,2}\/[^"]+)\.ts"/g;

/** Module names get the ending .js, maps name the sources in the package, and declarations that no entry reaches are dropped. */
function finishModules(target, entries) {
  const dist = join(target, "dist");
  for (const path of filesBelow(dist)) {
    if (path.endsWith(".map")) {
      const map = JSON.parse(readFileSync(path, "utf8"));
      const source = relative(dist, path).replace(/(?:\.d\.ts|\.js)\.map$/, ".ts");
      map.sources = [relative(dirname(path), join(target, "lib", source))];
      writeFileSync(path, JSON.stringify(map));
    } else {
      writeFileSync(path, readFileSync(path, "utf8").replace(specifier, '$1$2.js"'));
    }
  }
  const kept = new Set();
  const visit = (path) => {
    if (kept.has(path)) return;
    kept.add(path);
    const text = readFileSync(path, "utf8");
    for (const [, , name] of text.matchAll(/(\b(?:from|import)\s*\(?\s*")(\.{1,2}\/[^"]+)\.js"/g)) visit(resolve(dirname(path), `${name}.d.ts`));
  };
  for (const entry of entries) visit(join(target, entry));
  for (const path of filesBelow(dist)) {
    if (/\.d\.ts(?:\.map)?$/.test(path) && !kept.has(path.replace(/\.map$/, ""))) rmSync(path);
  }
  writeFileSync(join(dist, "globals.d.ts"), globals);
  for (const entry of entries) {
    const path = join(target, entry);
    const head = references(join(entry));
    writeFileSync(path, head + readFileSync(path, "utf8"));
    // Added lines at the top are empty lines in the mapping.
    const map = JSON.parse(readFileSync(`${path}.map`, "utf8"));
    map.mappings = `${";".repeat(head.split("\n").length - 1)}${map.mappings}`;
    writeFileSync(`${path}.map`, JSON.stringify(map));
  }
  if (!existsSync(join(dist, "cli", "main.js"))) throw new Failure(`${basename(dist)}/cli/main.js is missing`);
}
