// The declarations as consumers compile them: every common tsconfig, without skipLibCheck and without Bun's types, against an
// installed package, with the oldest TypeScript that the README names and the current one; and the findings of publint and "Are the types
// wrong?" about the archives.
import { copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { run } from "../../swift/scripts/exec.mjs";
import { Failure } from "../../swift/scripts/report.mjs";
import { rootFolder } from "../../swift/scripts/root.mjs";
import { tool } from "../tools.mjs";

const strict = { strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true, noPropertyAccessFromIndexSignature: true };
const bundler = { module: "ESNext", moduleResolution: "bundler" };
const nodeNext = { module: "NodeNext", moduleResolution: "NodeNext" };

/** Common consumers by name. Most use the `lib` of ES2022: the types for `using` come with the declarations. */
const matrix = {
  bundler: { ...bundler, target: "ESNext", lib: ["ESNext"] },
  "bundler, ES2022": { ...bundler, target: "ES2022", lib: ["ES2022"] },
  "bundler, ES2022 and DOM, strict": { ...bundler, ...strict, target: "ES2022", lib: ["ES2022", "DOM"] },
  "bundler, isolated modules": { ...bundler, ...strict, target: "ES2022", lib: ["ES2022"], isolatedModules: true, verbatimModuleSyntax: true },
  "bun init's": { ...strict, module: "Preserve", moduleResolution: "bundler", target: "ESNext", lib: ["ESNext"], allowImportingTsExtensions: true, verbatimModuleSyntax: true },
  NodeNext: { ...nodeNext, target: "ESNext", lib: ["ESNext"] },
  "NodeNext, ES2022": { ...nodeNext, ...strict, target: "ES2022", lib: ["ES2022"] },
  "NodeNext, not strict": { ...nodeNext, strict: false, target: "ES2022", lib: ["ES2022"] },
  Node16: { module: "Node16", moduleResolution: "Node16", ...strict, target: "ES2022", lib: ["ES2022"] },
};

/** The compilers, by their folders in packages/tools. 5.8 is the first whose libraries have Float16Array, which the tensors' types name. */
const compilers = ["typescript-oldest", "typescript"];

/** Compiles the consumer's program with each compiler under each tsconfig, in a folder whose node_modules has the package. */
export async function checkTypes(project) {
  const folder = join(project, "types");
  mkdirSync(folder);
  const subpaths = Object.keys(JSON.parse(readFileSync(join(rootFolder, "package.json"), "utf8")).exports).filter((path) => /^\.\/\w+$/.test(path) && path !== "./ai");
  const imports = subpaths.map((path, i) => `import * as subpath${i} from "gated-delta/${path.slice(2)}";\nexport const keys${i} = Object.keys(subpath${i});\n`);
  copyFileSync(join(rootFolder, "packages/test/consumer-types.ts"), join(folder, "consumer.ts"));
  writeFileSync(join(folder, "subpaths.ts"), imports.join(""));
  const checks = [];
  for (const compiler of compilers) {
    const { version } = JSON.parse(readFileSync(tool(compiler, "package.json"), "utf8"));
    for (const [name, options] of Object.entries(matrix)) {
      const compilerOptions = { noEmit: true, skipLibCheck: false, types: [], ...options };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
      const { code, text } = await run(process.execPath, [tool(compiler, "bin/tsc"), "--project", folder], { cwd: folder });
      if (code !== 0) throw new Failure(`types do not compile with TypeScript ${version}, ${name}:\n${text}`);
      checks.push(`types: TypeScript ${version}, ${name}`);
    }
    checks.push(await checkAiTypes(project, compiler, version));
  }
  rmSync(folder, { recursive: true });
  return checks;
}

/** A program with `gated-delta/ai`, whose declarations name the optional peer's types. That peer lacks declarations of some imports. */
async function checkAiTypes(project, compiler, version) {
  const folder = join(project, "types-of-ai");
  mkdirSync(folder);
  const peer = join(project, "node_modules", "@ai-sdk", "provider");
  cpSync(join(rootFolder, "node_modules", "@ai-sdk", "provider"), peer, { recursive: true });
  writeFileSync(join(folder, "ai.ts"), `import { languageModel } from "gated-delta/ai";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import type { LanguageModel } from "gated-delta/model";
export const use = (model: LanguageModel): LanguageModelV4 => languageModel(model, { sampling: "greedy" });
// @ts-expect-error there is no such option
export const misuse = (model: LanguageModel): LanguageModelV4 => languageModel(model, { samplings: "greedy" });
`);
  const compilerOptions = { noEmit: true, skipLibCheck: true, types: [], ...strict, ...bundler, target: "ES2022", lib: ["ES2022", "DOM"] };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, include: ["*.ts"] }));
  const { code, text } = await run(process.execPath, [tool(compiler, "bin/tsc"), "--project", folder], { cwd: folder });
  if (code !== 0) throw new Failure(`the types of gated-delta/ai do not compile with TypeScript ${version}:\n${text}`);
  for (const path of [folder, peer]) rmSync(path, { recursive: true });
  return `types of gated-delta/ai: TypeScript ${version}`;
}

/** Lints the archives. */
export async function lint(archives) {
  const { publint } = await import(pathToFileURL(tool("publint", "src/index-node.js")).href);
  const { formatMessage } = await import(pathToFileURL(tool("publint", "src/utils.js")).href);
  const checks = [];
  for (const [name, archive] of Object.entries(archives)) {
    const { messages, pkg } = await publint({ pack: { tarball: new Uint8Array(readFileSync(archive)).buffer }, strict: true });
    // The entry for Node only says that the package is not for Node, so no version of Node is needed.
    const found = messages.filter(({ code }) => code !== "USE_ENGINES_NODE");
    if (found.length > 0) throw new Failure(`publint of ${name}:\n${found.map((message) => formatMessage(message, pkg, { color: false })).join("\n")}`);
    checks.push(`publint: ${name}`);
    // The package consists of ES modules, for Bun.
    const attw = await run(process.execPath, [tool("@arethetypeswrong/cli", "dist/index.js"), archive, "--profile", "esm-only", "--no-color", "--no-emoji"]);
    if (attw.code !== 0) throw new Failure(`are the types wrong, ${name}:\n${attw.text}`);
    checks.push(`attw: ${name}`);
  }
  return checks;
}
