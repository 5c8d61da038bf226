import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as ggml from "../lib/ggml.ts";
import * as api from "../lib/index.ts";
import { scratch } from "./support/files.ts";

const root = join(import.meta.dir, "..");
const docs = join(root, "docs");
const { folder } = scratch();
const files = readdirSync(join(docs, "examples")).sort();
const programs = files.filter((name) => name.endsWith(".ts"));
const commands = files.filter((name) => name.endsWith(".sh"));
const guides = readdirSync(docs).filter((name) => name.endsWith(".md"));
const model = "test/golden/models/qwen3_5-mlx-mixed";

const textOf = (name: string) => readFileSync(join(docs, name), "utf8");
const example = (name: string) => readFileSync(join(docs, "examples", name), "utf8");

/** The part of each program's output that does not depend on the machine. */
const prints: Record<string, RegExp> = {
  "ai-sdk.ts": /^\d+ tokens read, \d+ of them from the cache, \d+ written$/m,
  "agent.ts": /^Baikal is [1-9]\d{0,3} metres deep$/m,
  "best-of.ts": /of \d+ tokens$/m,
  "checkpoints.ts": /^1 of 4 slots are free$/m,
  "constraints.ts": /^string \d{1,4} (?:true|false)\n[A-Z]{2}-\d{4}$/m,
  "disk.ts": /^true$/m,
  "draft.ts": /^three of five tokens are in the state$/m,
  "errors.ts": /code: "shape",\s+op: "rmsNorm",\s+argument: "weight",\s+expected: "\[dim\] = \[8\]",\s+received: "\[4\]"/,
  "five-lines.ts": /^Float32Array\(8\) \[/m,
  "fork.ts": /^Float32Array\(3\) \[/m,
  "ggml.ts": /^\[ 2, 1, 2, 64 \] true$/m,
  "layer.ts": /hiddenSize: 192/,
  "layers.ts": /^1 layers, 3 tokens of 2 sequences$/m,
  "mix.ts": /\[ 12, 384 \] and \[ 1, 384 \]$/m,
  "model-batch.ts": /^equal: true$/m,
  "model.ts": /^\d+(?: \d+){7}$/m,
  "operations.ts": /^(?:cpu|metal), .+: prefilled 7 tokens, decoded 3\nfirst numbers:(?: -?\d\.\d{4}){4}$/m,
  "prefix-cache.ts": /^40 3 1$/m,
  "readme.ts": /\n.*\n.*\n$/,
  "sampling.ts": /^true\n(?:".*" \d+ -\d+\.\d\d, \d+ -\d+\.\d\d, \d+ -\d+\.\d\d\n){5}$/,
  "server.ts": /^http:\/\/.+\n[\s\S]+/,
  "session-cache.ts": /^\d+ tokens, 0 of them not read again\n\d+ tokens, [1-9]\d* of them not read again\n\d+ tokens, [1-9]\d* of them not read again$/m,
  "session-disk.ts": /^the same tokens: true$/m,
  "session-draft.ts": /^the same tokens: true in 40 and \d+ steps$/m,
  "session-turns.ts": /^0 tokens kept, \d+ added, 0 to be read again\n[\s\S]*^\d+ tokens kept, \d+ added, \d+ to be read again\n4 messages$/m,
  "session.ts": /./,
  "state-agent.ts": /^branch \d, here(: token \d+(?: -?\d[\d.e-]*){3})\nloaded, elsewhere\1$/m,
};

interface Outcome {
  readonly status: number;
  readonly errors: string;
  readonly out: string;
}

function run(command: readonly string[], env: Record<string, string> = {}): Outcome {
  const child = Bun.spawnSync([...command], { cwd: root, env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe", timeout: 280_000 });
  return { status: child.exitCode, errors: child.stderr.toString(), out: child.stdout.toString() };
}

/** Runs a program from the clone's folder, like a project that has installed the package. */
function runProgram(name: string): Outcome {
  const modules = join(folder, "node_modules");
  mkdirSync(modules, { recursive: true });
  if (!existsSync(join(modules, "gated-delta"))) symlinkSync(root, join(modules, "gated-delta"), "dir");
  if (!existsSync(join(modules, "ai"))) symlinkSync(join(root, "node_modules", "ai"), join(modules, "ai"), "dir");
  writeFileSync(join(folder, name), example(name));
  return run([process.execPath, join(folder, name)]);
}

/** Runs a command line whose `bunx` finds the clone's command. */
function runCommand(name: string): Outcome {
  const bin = join(folder, "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "bunx"), `#!/bin/sh\nshift\nexec "${process.execPath}" "${join(root, "lib/cli/main.ts")}" "$@"\n`);
  chmodSync(join(bin, "bunx"), 0o755);
  return run(["sh", join(docs, "examples", name)], { PATH: `${bin}:${process.env["PATH"]}`, MODEL: model });
}

describe("the site's examples", () => {
  test.each(programs)("program %s runs and prints what it should", (name) => {
    const { status, errors, out } = runProgram(name);
    expect([status, errors]).toEqual([0, ""]);
    expect(prints[name]).toBeDefined();
    expect(out).toMatch(prints[name]!);
  }, 120_000);

  test.each(commands.filter((name) => name !== "install.sh"))("command %s runs", (name) => {
    const { status, out } = runCommand(name);
    expect([status, out !== ""]).toEqual([0, true]);
  }, 300_000);

  test("the command that installs is one that the packages' test runs", () => {
    expect(readFileSync(join(root, "packages/test/run.mjs"), "utf8")).toMatch(/example\("install\.sh"\)/);
    expect(example("install.sh")).toBe("bun add gated-delta\n");
  });
});

describe("the configurations of clients", () => {
  test("are what their programs read, for a server as it starts", () => {
    const { provider: { local }, model: chosen } = JSON.parse(example("opencode.json"));
    const codex = Bun.TOML.parse(example("codex.toml")) as any;
    const claude = Object.fromEntries(example("claude-code.env").trim().split("\n").map((line) => line.split("=")));
    const { out } = run([process.execPath, join(root, "lib/cli/main.ts"), "serve", "--help"]);
    const [, host] = /--host .*default: ([\d.]+)/.exec(out)!;
    const [, port] = /--port .*default: (\d+)/.exec(out)!;
    const base = `http://${host}:${port}`;
    expect([local.options.baseURL, codex.model_providers[codex.model_provider].base_url, claude["ANTHROPIC_BASE_URL"]]).toEqual([`${base}/v1`, `${base}/v1`, base]);
    expect([chosen, Object.keys(local.models), codex.model, claude["ANTHROPIC_MODEL"]]).toEqual(["local/NAME", ["NAME"], "NAME", "NAME"]);
    expect([codex.model_providers.local.wire_api, codex.web_search]).toEqual(["responses", "disabled"]);
  });
});

test("links of the clone's Markdown lead to files and headings that are there", () => {
  /** As GitHub makes them. */
  const anchorOf = (heading: string) => heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, "").replaceAll(" ", "-");
  // Files of bench/gpu are parts of bench/gpu.md.
  const texts = ["*.md", "bench/**/*.md"].flatMap((glob) => [...new Bun.Glob(glob).scanSync(root)]).filter((path) => !path.startsWith("bench/gpu/"));
  expect(texts.length).toBeGreaterThan(10);
  for (const path of texts) {
    for (const [, link] of readFileSync(join(root, path), "utf8").matchAll(/\]\((?!https?:)([^)\s]+)\)/g)) {
      const [name, anchor] = link!.split("#") as [string, string?];
      const file = name === "" ? join(root, path) : join(root, dirname(path), name);
      expect([path, link, existsSync(file)]).toEqual([path, link, true]);
      if (anchor === undefined || !file.endsWith(".md")) continue;
      const anchors = [...readFileSync(file, "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading]) => anchorOf(heading!));
      expect([path, link, anchors.includes(anchor)]).toEqual([path, link, true]);
    }
  }
});

describe("the site's guides", () => {
  test("show every example, and no other block of code", () => {
    const shown = new Set<string>(["readme.ts"]);
    for (const name of guides) {
      const text = textOf(name);
      for (const [, file] of text.matchAll(/^<<< @\/examples\/(\S+)$/gm)) shown.add(file!);
      expect([name, text.match(/^\s*(?:```|~~~).*$/m)?.[0]]).toEqual([name, undefined]);
      expect([name, text.replace(/^---[\s\S]*?^---$/m, "").match(/\n\n(?: {4}|\t)\S.*/)?.[0]]).toEqual([name, undefined]);
    }
    expect([...shown].sort()).toEqual(files);
  });

  test("begin with what a reader can do or knows after them", () => {
    for (const name of guides.filter((guide) => guide !== "index.md")) {
      expect([name, textOf(name).split("\n\n")[1]]).toEqual([name, expect.stringMatching(/^After this page you (?:can|know|have) [\s\S]+\.$/)]);
    }
  });

  test("show pictures that are there, each with words for those who do not see it", () => {
    const pictures = readdirSync(join(docs, "pictures")).sort();
    const shown = guides.flatMap((name) => [...textOf(name).matchAll(/!\[[^\]]+\]\(\.\/pictures\/([\w-]+\.svg)\)/g)].map(([, file]) => file!));
    expect([...new Set(shown)].sort()).toEqual(pictures);
    for (const name of pictures) expect(textOf(`pictures/${name}`)).toMatch(/^<svg [^>]*role="img" aria-label="[^"]{20,}"/);
  });

  test("have the plots that the recorded tables give", async () => {
    const { plots } = (await import("../docs/plots.mjs" as string)) as { plots(): Record<string, string> };
    for (const [name, svg] of Object.entries(plots())) expect([name, textOf(`pictures/${name}`) === svg]).toEqual([name, true]);
  });

  test("tell of every operation, and of none that is not there", () => {
    const text = textOf("operations.md");
    const table = text.slice(text.indexOf("## All of them"), text.indexOf("## Gates"));
    const told = [...table.matchAll(/^\|([^|]+)\|/gm)].flatMap(([, cell]) => [...cell!.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
    const operations = Object.entries({ ...api, ...ggml }).filter(([name, value]) => {
      return typeof value === "function" && /^[a-z]/.test(name) && !/^(?:encode|decode)Bf16$|^libraryInfo$/.test(name);
    });
    expect(told.sort()).toEqual(operations.map(([name]) => name).sort());
  });

  test("quote numbers of bench/ as they stand there", async () => {
    const { table } = (await import("../docs/plots.mjs" as string)) as { table(text: string, head: string): Record<string, string>[] };
    const bench = (name: string) => readFileSync(join(root, "bench", name), "utf8");
    const measured = new Map(table(bench("RESULTS.md"), "| work | ours | graph |").map((row) => [row["work"]!, row]));
    const rows = table(textOf("why.md"), "| work | llama.cpp's graph |");
    const names = ["decode B = 1, cold", "decode B = 8, cold", "prefill T = 512", "conv prefill + SiLU T = 512"];
    expect(rows.length).toBe(names.length);
    for (const [i, name] of names.entries()) {
      const { "graph ÷ ours": graph, "op ÷ ours": op } = measured.get(name)!;
      expect(Object.values(rows[i]!).slice(1)).toEqual([graph!, op!]);
    }
    const medians = (row: Record<string, string>) => Object.entries(row).map(([head, cell]) => [head, cell.replace(/ \(.*/, "")]);
    expect(table(textOf("why.md"), "| weights | 1 row, exact |").map(medians)).toEqual(table(bench("linear.md"), "| weights | 1 row, exact |").map(medians));
    const times = (row: Record<string, string>) => Object.entries(row).filter(([head]) => /^(?:T = )?(?:512|2048)/.test(head)).map(([, cell]) => cell);
    const peers = new Map(table(bench("RESULTS.md"), "| | T = 1, 1 thread |").map((row) => [row[""]!, times(row)]));
    const order = ["chunked", "recurrent", "ONNX Runtime", "ggml, the op", "torch, chunked", "torch, recurrent", "mlx"];
    expect(table(textOf("why.md"), "| | 512 tokens, 1 thread |").map(times)).toEqual(order.map((name) => peers.get(name)!));
    const model = bench("model.md");
    // The pages leave out what is bold, links and marks.
    const plain = (text: string) => text.replace(/\*\*| †|\[([^\]]+)\]\([^)]+\)/g, "$1");
    const recorded = table(plain(model), "| | target |").map(({ target: _, noisy: __, ...row }) => row);
    const of = (row: Record<string, string>) => row[""]!.includes("llama.cpp");
    expect(table(textOf("why.md"), "| | Zen 4 | Zen 5 |")).toEqual(recorded.filter(of));
    expect(table(textOf("speed.md"), "| | Zen 4 | Zen 5 |")).toEqual(recorded.filter((row) => !of(row)));
    expect(model.replace(/\s+/g, " ")).toContain("16 to 22 s a token");
    const gpu = new Map(table(bench("gpu.md"), "| case | µs |").map((row) => [row["case"]!, Number(row["µs"])]));
    const [, ...later] = /take\s+([\d.]+), ([\d.]+) and ([\d.]+) µs for decode,\s+and ([\d.]+)\s+and ([\d.]+) µs for prefill/.exec(textOf("why.md"))!;
    for (const [i, name] of ["decode/B1", "decode/B8", "decode/B64", "prefill/B1/T512", "prefill/B1/T2048"].entries()) {
      expect([name, Math.abs(Number(later[i]) / gpu.get(name)! - 1) < 0.01]).toEqual([name, true]);
    }
  });

  test("name the commands and environment variables that there are", () => {
    const text = textOf("install.md");
    const { out } = run([process.execPath, join(root, "lib/cli/main.ts"), "--help"]);
    const commands = [...out.matchAll(/^ {2}(\w+) {2,}/gm)].map(([, name]) => name!);
    expect([...text.matchAll(/^\| `gated-delta (\w+)/gm)].map(([, name]) => name!).sort()).toEqual(commands.sort());
    const sources = ["lib", "swift", "test"].flatMap((name) => [...new Bun.Glob("**/*.{ts,mjs,swift,c}").scanSync(join(root, name))].map((path) => join(root, name, path)));
    const code = sources.map((path) => readFileSync(path, "utf8")).join("\n");
    for (const [, name] of text.matchAll(/^\| `(GATED_DELTA_\w+)`/gm)) expect([name, code.includes(`"${name}"`) || code.includes(`.${name}`)]).toEqual([name, true]);
  });
});
