import { describe, expect, test } from "bun:test";
import { cpSync, existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import manifest from "../package.json" with { type: "json" };
import { tinyModel } from "../lib/model.ts";
import { libraryInfo } from "../lib/index.ts";
import { gatedDelta, rowsOf } from "./support/command.ts";
import { scratch } from "./support/files.ts";
import { goldenFiles } from "./support/golden.ts";

const { folder, newPath } = scratch();

describe("gated-delta", () => {
  test("without a command, or with one that is not there, says what there is", () => {
    for (const args of [[], ["prove"], ["__proto__"], ["-x"]]) {
      const { status, out, errors } = gatedDelta(args);
      expect([status, out]).toEqual([2, ""]);
      for (const command of ["demo", "doctor", "generate", "serve", "verify", "--help"]) expect(errors).toContain(command);
      expect(errors.trimEnd().split("\n")).toHaveLength(1);
    }
  });

  test.each(["--help", "-h", "help", "demo --help", "doctor -h", "verify --help --json", "generate -h"])("%s", (line) => {
    const { status, out, errors } = gatedDelta(line.split(" "));
    expect([status, errors]).toEqual([0, ""]);
    expect(out).toStartWith("Usage: gated-delta");
  });

  test("help is an option, and not a prompt", () => {
    for (const prompt of ["--help", "-h"]) {
      const { status, out, errors } = gatedDelta(["generate", "no such folder", "--", prompt]);
      expect([status, out]).toEqual([2, ""]);
      expect(errors).toContain("no such folder");
    }
  });

  test.each(["--version", "-v"])("%s is the package's version", (option) => {
    expect(gatedDelta([option])).toEqual({ status: 0, out: `gated-delta ${manifest.version}\n`, errors: "" });
  });

  test.each([
    [["verify"], "file"],
    [["verify", "x", "--backend", "gpu"], "--backend"],
    [["verify", "x", "--threads", "1025"], "--threads: expected an integer in 0..1024, got 1025"],
    [["verify", "x", "--threads", "1.5"], "--threads: expected an integer in 0..1024, got 1.5"],
    [["verify", "x", "--threads", "many"], "--threads: expected a number"],
    [["verify", "x", "--threads", "-1"], "option '--threads' argument is ambiguous: to specify an option argument starting with a dash use '--threads=-XYZ' (gated-delta verify --help"],
    [["verify", "x", "--dtype", "f64"], "--dtype"],
    [["verify", "x", "--prompts", "rows"], "--prompts: expected exact, matrix or both"],
    [["verify", "x", "--fast"], "no option --fast; there is --backend, --threads, --dtype, --activations, --prompts, --json, --help"],
    [["verify", "x", "-f"], "no option -f"],
    [["doctor", "--backend", "cpu"], "no option --backend; there is --json, --help"],
    [["verify", "x", "--json=no"], "--json"],
    [["generate", "folder"], "one prompt"],
    [["generate", "folder", "a", "b"], "one prompt"],
    [["generate", "folder", "a", "--temperature", "hot"], "--temperature: expected a number"],
    [["generate", "folder", "a", "--max-tokens", "-1"], "option '--max-tokens' argument is ambiguous: to specify an option argument starting with a dash use '--max-tokens=-XYZ' (gated-delta generate --help"],
    [["generate", "folder", "a", "--max-tokens=-1"], "--max-tokens: expected an integer in 0..2147483647, got -1"],
    [["generate", "folder", "a", "--top-p", "2"], "--top-p: expected a number above 0, at most 1, got 2"],
    [["generate", "folder", "a", "--stop", ""], "--stop: expected a non-empty text, or an array of them"],
    [["serve"], "one model"],
    [["serve", "folder", "--port", "65536"], "--port: expected a number from 0 to 65535"],
    [["serve", "folder", "--sessions", "0"], "--sessions"],
    [["serve", "folder", "--dtype", "f64"], "--dtype"],
    [["serve", "folder", "--store", "folder"], "--store needs --secret-file"],
    [["serve", "folder", "--secret-file", "file"], "--secret-file needs --store"],
    [["serve", "folder", "--store", "folder", "--secret-file", "/no/such/file"], "--secret-file: "],
    [["serve", "folder", "--store", "folder", "--secret-file", "/dev/null"], "--secret-file: expected a secret of at least 32 bytes, got 0"],
    [["serve", "folder", "--store", "folder", "--secret-file", "/dev/zero"], "--secret-file: expected a secret of at most 65536 bytes, got more"],
    [["serve", "folder", "--host", ""], '--host: expected a name or an address of this machine, got ""'],
    [["serve", "folder", "--host", "nowhere.invalid"], "--host: expected a name or an address of this machine"],
    [["generate", "folder", "- one"], "no option -; there is"],
    [["generate", "folder", "-x"], "an argument that begins with a dash goes after --"],
    [["generate", "folder", " ", "--ids"], "a prompt of token ids: expected numbers with spaces between, got none"],
    [["generate", "folder", "1", "--ids", "--system", "Be brief."], "--system: a prompt of token ids has no messages"],
    [["generate", "folder", "a", "--context", "0"], "--context"],
    [["generate", "folder", "a", "--dtype", "f64"], "--dtype"],
    [["generate", "folder", "a", "--weights", "disk"], "--weights: expected copied or mapped"],
    [["demo", "--backend"], "--backend"],
    [["doctor", "one", "two"], "one folder"],
  ])("%j is a mistake of usage", (args, mention) => {
    const { status, out, errors } = gatedDelta(args);
    expect([status, out]).toEqual([2, ""]);
    expect(errors).toContain(mention);
    expect(errors).toContain(`gated-delta ${args[0]} --help`);
    expect(errors.trimEnd().split("\n")).toHaveLength(1);
  });
});

describe("generate", () => {
  const model = join(import.meta.dir, "golden/models/qwen3_5-mlx-mixed");
  /** The model's folder without some of its files. */
  const without = (left: RegExp) => {
    const copy = newPath();
    cpSync(model, copy, { recursive: true, filter: (path) => !left.test(path) });
    return copy;
  };
  const withoutText = without(/tokenizer\.json$/);
  const withoutTemplate = without(/chat_template|tokenizer_config/);

  test("answers token by token, and says how fast", () => {
    const ids = ["generate", model, "5 6 7", "--ids", "--max-tokens", "12", "--backend", "cpu", "--threads", "2"];
    const plain = gatedDelta(ids);
    expect(plain.status).toBe(0);
    expect(plain.out).toMatch(/^\d+( \d+){0,11}\n$/);
    expect(plain.errors).toMatch(/^4 layers, \d+ MB, on cpu: /);
    expect(gatedDelta([...ids, "--weights", "mapped"]).out).toBe(plain.out);
    expect(plain.errors).toMatch(/prompt  3 tokens, [\d.]+ tokens\/s, \d+ % of this machine's [\d.]+ G multiply-adds\/s/);
    expect(plain.errors).toMatch(/answer  \d+ tokens, [\d.]+ tokens\/s, \d+ % of this machine's [\d.]+ GB\/s, \d+ steps/);
    const drafted = gatedDelta([...ids, "--drafts", "--quiet"]);
    expect([drafted.out, drafted.errors]).toEqual([plain.out, ""]);
    const few = gatedDelta([...ids.slice(0, 4), "--context", "6", "--backend", "cpu", "--quiet"]);
    expect(few.out.trim().split(" ")).toEqual(plain.out.trim().split(" ").slice(0, 3));
  });

  const quick = ["--max-tokens", "6", "--backend", "cpu", "--threads", "2"];

  test("reads the prompt from a file, and from a pipe", () => {
    const plain = gatedDelta(["generate", model, "Hello\nyou", ...quick, "--quiet"]);
    expect(plain.status).toBe(0);
    for (const args of [[model, "-"], [model]]) {
      for (const end of ["\n", "\r\n", ""]) expect(gatedDelta(["generate", ...args, ...quick, "--quiet"], {}, `Hello\nyou${end}`)).toEqual(plain);
    }
    expect(gatedDelta(["generate", model, "5 6 7", "--ids", ...quick], {}, "not read").out).toBe(gatedDelta(["generate", model, "-", "--ids", ...quick], {}, "5 6\n7\n").out);
    for (const [input, words] of [["", "the standard input is empty"], ["\n", "the standard input is empty"], [new Uint8Array([0xff, 0xfe]), "UTF-8"]] as const) {
      const { status, out, errors } = gatedDelta(["generate", model, "-"], {}, input);
      expect([status, out]).toEqual([2, ""]);
      expect(errors).toContain(words);
    }
  });

  const jsonOf = (out: string) => out.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as Record<string, unknown>);

  test("as lines of JSON: what was loaded, how far the prompt is, the pieces, the end", () => {
    const plain = gatedDelta(["generate", model, "Hello", ...quick, "--quiet"]);
    const { status, out, errors } = gatedDelta(["generate", model, "Hello", ...quick, "--json"]);
    expect([status, errors]).toEqual([0, ""]);
    const rows = jsonOf(out);
    const of = (type: string) => rows.filter((row) => row["type"] === type);
    const [first, last] = [of("load")[0]!, of("load").at(-1)!];
    expect(first["bytes"]).toBeLessThan(first["total"] as number);
    expect(last["bytes"]).toBe(last["total"]!);
    expect(of("model")).toEqual([{ type: "model", layers: 4, bytes: last["total"], backend: "cpu", device: expect.any(String) }]);
    const { tokens } = of("prompt").at(-1)!;
    expect(of("prompt").at(-1)).toEqual({ type: "prompt", read: tokens, tokens });
    expect(of("piece")).toHaveLength(6);
    expect(`${of("piece").map(({ text }) => text).join("")}\n`).toBe(plain.out);
    const speed = { seconds: expect.any(Number), tokensPerSecond: expect.any(Number), ofLimit: expect.any(Number) };
    expect(rows.at(-1)).toEqual({ type: "end", end: "length", text: plain.out.slice(0, -1), prompt: { tokens, read: tokens, ...speed }, answer: { tokens: 6, steps: 5, ...speed } });
    expect([...new Set(rows.map(({ type }) => type))]).toEqual(["load", "model", "prompt", "piece", "end"]);

    const quiet = jsonOf(gatedDelta(["generate", model, "Hello", ...quick, "--json", "--quiet"]).out);
    expect(quiet.map(({ type }) => type)).toEqual([...Array<string>(6).fill("piece"), "end"]);
    expect(quiet.slice(0, 6)).toEqual(of("piece"));
    expect(quiet.at(-1)!["answer"]).toEqual({ tokens: 6, steps: 5, seconds: expect.any(Number) });
    const none = jsonOf(gatedDelta(["generate", model, "Hello", "--json", "--quiet", "--max-tokens", "0", "--backend", "cpu"]).out);
    expect(none).toMatchObject([{ type: "end", end: "length", text: "", answer: { tokens: 0 } }]);
  });

  /** Starts a command and sends it a signal after a matching line of JSON; returns its lines and how it ended. */
  const interrupted = async (args: readonly string[], fits: (row: Record<string, unknown>) => boolean) => {
    const main = join(import.meta.dir, "..", "lib", "cli", "main.ts");
    const child = Bun.spawn([process.execPath, main, "generate", ...args, "--json", "--backend", "cpu", "--threads", "1"], { stdout: "pipe", stderr: "pipe" });
    let out = "";
    let sent = false;
    const decoder = new TextDecoder();
    for await (const part of child.stdout) {
      out += decoder.decode(part, { stream: true });
      if (sent || !jsonOf(out.slice(0, out.lastIndexOf("\n") + 1)).some(fits)) continue;
      sent = true;
      for (let i = 0; i < 2; i++) child.kill("SIGINT"); // npx sends two for one key press
    }
    return { status: await child.exited, rows: jsonOf(out), errors: await child.stderr.text() };
  };

  test("bars on a terminal, and nowhere else", async () => {
    let shown = "";
    const args = [process.execPath, join(import.meta.dir, "..", "lib", "cli", "main.ts"), "generate", model, "1 2 3 4 5 6 7 8 ".repeat(400), "--ids", ...quick];
    const child = Bun.spawn(args, { terminal: { data: (_, part) => void (shown += new TextDecoder().decode(part)) } });
    expect(await child.exited).toBe(0);
    expect(shown).toMatch(/\r\x1b\[K\[=+ *\] \d of 1 MB/);
    expect(shown).toMatch(/\r\x1b\[K\[=+ *\] \d+ of 3200 tokens of the prompt/);
    expect(shown).toMatch(/\r\x1b\[K\d+( \d+){5}\r\nprompt  3200 tokens/); // the answer replaces the bar
    const plain = gatedDelta(args.slice(2));
    expect(plain.errors).not.toContain("\r");
    expect(shown).toContain(plain.out.trim());
  });

  test("Ctrl-C ends the answer, and the speeds are told", async () => {
    const endless = ["--max-tokens", "30000", "--stop", "never there"];
    const { status, rows, errors } = await interrupted([model, "Hello", "--temperature", "4", "--seed", "1", ...endless], ({ type }) => type === "piece");
    expect([status, errors]).toEqual([130, ""]);
    const pieces = rows.filter(({ type }) => type === "piece").length;
    expect(rows.at(-1)).toMatchObject({ type: "end", end: "interrupted", prompt: { tokensPerSecond: expect.any(Number) }, answer: { tokens: pieces } });
  });

  test("a long prompt is told of while it is read, and Ctrl-C ends that too", async () => {
    const long = without(/expected\.safetensors/);
    const config = JSON.parse(readFileSync(join(long, "config.json"), "utf8"), (key, value: unknown) => (key === "max_position_embeddings" ? 32768 : value)) as object;
    writeFileSync(join(long, "config.json"), JSON.stringify(config));
    const { status, rows, errors } = await interrupted([long, "1 2 3 4 5 6 7 8 ".repeat(2500), "--ids", "--context", "32768"], ({ type }) => type === "prompt");
    expect([status, errors]).toEqual([130, ""]);
    const reading = rows.filter(({ type }) => type === "prompt");
    expect(reading[0]!["read"]).toBeLessThan(20_000);
    const { end, prompt: read, answer } = rows.at(-1) as { end: string; prompt: { tokens: number; read: number; tokensPerSecond: number }; answer: { tokens: number } };
    expect([end, read.tokens, answer.tokens]).toEqual(["interrupted", 20_000, 0]);
    expect(read.read).toBeLessThan(20_000);
    expect(read.tokensPerSecond).toBeGreaterThan(0);
  });

  test("chats in text, with the options that it is given", () => {
    const chat = ["generate", model, "Hello", "--system", "Be brief.", "--max-tokens", "24", "--quiet", "--backend", "cpu", "--threads", "2"];
    const sampled = [...chat, "--model-sampling", "--temperature", "2", "--seed", "4", "--stop", "never there"];
    const [one, two] = [gatedDelta(sampled), gatedDelta(sampled)];
    expect([one.status, one.errors]).toEqual([0, ""]);
    expect(one.out.length).toBeGreaterThan(5);
    expect(two.out).toBe(one.out);
    const stop = one.out[3]!;
    expect(gatedDelta([...sampled, "--stop", stop]).out).toBe(`${one.out.slice(0, one.out.indexOf(stop))}\n`);
    expect(gatedDelta([...chat, "--raw"]).out).not.toBe(gatedDelta(chat).out);
  });

  test("without a chat template the prompt is taken as it is", () => {
    const args = ["Hello", "--max-tokens", "8", "--quiet", "--backend", "cpu", "--threads", "2"];
    expect(gatedDelta(["generate", withoutTemplate, ...args])).toEqual(gatedDelta(["generate", model, ...args, "--raw"]));
    expect(gatedDelta(["generate", withoutTemplate, ...args, "--system", "Be brief."])).toMatchObject({ status: 2, out: "" });
  });

  test("what can't be done is one line", () => {
    for (const [args, words] of [
      [["none such", "a"], "none such"],
      [[model, "600", "--ids"], "0..511"],
      [[withoutText, "a"], "--ids"],
      [[model, "a", "--raw", "--system", "Be brief."], "--system"],
      [[model, "a", "--ids"], "token ids"],
      [[model, "a".repeat(300), "--context", "64"], "--context"],
      [[model, "1 2 3", "--ids", "--context", "3"], "at least 4"],
    ] as const) {
      const { status, out, errors } = gatedDelta(["generate", ...args, "--quiet", "--backend", "cpu"]);
      expect([status, out]).toEqual([2, ""]);
      expect(errors).toContain(words);
      expect(errors.trimEnd().split("\n")).toHaveLength(1);
    }
  });
});

describe("demo", () => {
  test("runs the golden layers and says how well", () => {
    const { status, out, errors } = gatedDelta(["demo", "--backend", "cpu", "--threads", "2"]);
    expect([status, errors]).toEqual([0, ""]);
    for (const path of goldenFiles("layer")) expect(out).toContain(basename(path));
    expect(out).toContain("Device: cpu");
    expect(out).toContain("2 threads");
    expect(out).toMatch(/prefill +2 x 70 tokens in one batch: \d+ tokens\/s/);
    expect(out).toMatch(/decode +2 x 5 tokens, one at a time: \d+ tokens\/s/);
    // A whole model comes last, and chooses every token that transformers does.
    const model = out.slice(out.indexOf("qwen3_5-mlx-mixed: a whole model of 3 Gated DeltaNet and 1 attention layers"));
    expect(model).toMatch(/prompt +37 tokens in one run: \d+ tokens\/s/);
    expect(model).toMatch(/48 of 48 are those of transformers; logits relRms [1-9]\.\d+e-[67], bound 0\.00002: ok/);
    expect(out).toContain("All outputs agree with the reference.");
  });

  test("fails where an output is out of tolerance", () => {
    const bytes = readFileSync(goldenFiles("layer")[0]!);
    const path = newPath("layer.safetensors");
    const start = 8 + Number(bytes.readBigUInt64LE(0));
    const header = JSON.parse(bytes.subarray(8, start).toString()) as Record<string, { data_offsets: [number] }>;
    const at = start + header["output_f32"]!.data_offsets[0];
    bytes.writeFloatLE(bytes.readFloatLE(at) + 0.01, at);
    writeFileSync(path, bytes);
    const { status, out } = gatedDelta(["demo", path]);
    expect(status).toBe(1);
    expect(out).toContain("FAILED");
    expect(out).toContain("OUT OF TOLERANCE");
  });

  test("fails where a model chooses another token", () => {
    const model = join(folder, "another-model");
    cpSync(join(import.meta.dir, "golden", "models", "qwen3_5-mlx-mixed"), model, { recursive: true });
    const path = join(model, "expected.safetensors");
    const bytes = readFileSync(path);
    const start = 8 + Number(bytes.readBigUInt64LE(0));
    const header = JSON.parse(bytes.subarray(8, start).toString()) as Record<string, { data_offsets: [number] }>;
    const at = start + header["greedy.0"]!.data_offsets[0] + 4 * 5;
    bytes.writeInt32LE(bytes.readInt32LE(at) ^ 1, at);
    writeFileSync(path, bytes);
    const { status, out } = gatedDelta(["demo", model]);
    expect([status, out]).toEqual([1, expect.stringContaining("47 of 48 are those of transformers")]);
    const verified = gatedDelta(["verify", "--backend", "cpu", "--json", model]);
    const failed = rowsOf(verified).filter((row) => !row.pass);
    expect([verified.status, failed.map(({ tensor, file }) => [tensor, file])]).toEqual([1, [["greedy.0", model]]]);
  }, 60_000);

  test("says what is wrong with a file", () => {
    const path = join(folder, "nowhere.safetensors");
    const { status, errors } = gatedDelta(["demo", path]);
    expect([status, errors]).toEqual([2, `gated-delta demo: ${path}: expected a readable file, got no such file\n`]);
  });
});

describe("doctor", () => {
  test("shows what was found", () => {
    const { status, out, errors } = gatedDelta(["doctor"]);
    expect([status, errors]).toEqual([0, ""]);
    const lines = new Map(out.split("\n").map((line) => [line.split(":")[0], line.slice(17)]));
    expect(lines.get("Bun")).toContain(Bun.version);
    expect(lines.get("library")).toContain(libraryInfo().path);
    expect(lines.get("version")).toContain(`ABI ${libraryInfo().abiVersion}`);
    expect(lines.get("cpu")).toMatch(/\d+ threads?$/);
    expect(lines.get("metal")).toMatch(process.platform === "darwin" ? /./ : /^none on Linux|emulated/);
    expect(["cpu", "metal"]).toContain(lines.get("backend")!);
  });

  test.skipIf(process.platform !== "linux")("names the command that builds a missing emulated Metal, and so does verify", () => {
    const env = { GATED_DELTA_METAL_EMULATOR: "" };
    expect(gatedDelta(["doctor"], env).out).toMatch(/^metal: +none on Linux, where the CPU backend does the work: .*`npm run emulator` builds it/m);
    const { status, errors } = gatedDelta(["verify", "--backend", "metal", "x"], env);
    expect(status).toBe(2);
    expect(errors).toContain("`npm run emulator` builds it");
    const { scripts } = manifest as { scripts: Record<string, string> };
    expect(existsSync(join(import.meta.dir, "..", scripts["emulator"]!.replace(/^node /, "")))).toBe(true);
  });

  test("of a model's folder says what it takes of the memory that is free", () => {
    const { status, out } = gatedDelta(["doctor", tinyModel, "--json"]);
    const { memory, weights } = JSON.parse(out) as Record<"memory" | "weights", Record<string, number>>;
    expect(status).toBe(0);
    expect([memory["states"], memory["pageTokens"]]).toEqual([8, 64]);
    expect(memory["stateBytes"]! + memory["pageBytes"]!).toBeLessThanOrEqual(memory["free"]! / 2);
    expect(weights["mapped"]! + weights["copied"]!).toBe(memory["weights"]!);
    expect(weights["mapped"]).toBeGreaterThan(0.95 * memory["weights"]!);
    const text = gatedDelta(["doctor", tinyModel]).out;
    expect(text).toMatch(/^mapped weights: +\d.* MB in place, \d.* MB copied \(\d+\.\d % in place\)$/m);
    expect(text).toMatch(/^memory: +weights of .* leave .* GB; by default 8 states \(.*\) and \d+ pages, for \d+ tokens/m);
    const none = gatedDelta(["doctor", "such-folder"]);
    expect([none.status, none.errors]).toEqual([2, expect.stringContaining("such-folder")]);
  });

  test("as JSON, with what was found and with what was not", () => {
    const { status, out, errors } = gatedDelta(["doctor", "--json"], { GATED_DELTA_ISA: "" });
    expect([status, errors]).toEqual([0, ""]);
    expect(JSON.parse(out)).toEqual({
      ok: true,
      bun: { version: Bun.version, revision: Bun.revision },
      package: { name: "gated-delta", version: manifest.version, path: `${join(import.meta.dir, "..")}/` },
      system: { platform: process.platform, release: expect.any(String), arch: process.arch },
      processor: { model: expect.any(String), cores: expect.any(Number) },
      isa: "",
      memory: { free: expect.any(Number) },
      library: libraryInfo(),
      backend: expect.stringMatching(/^cpu$|^metal$/),
      cpu: { name: expect.any(String), isa: expect.any(String), threads: expect.any(Number), emulated: false },
      metal: expect.any(Object),
    });
    const none = gatedDelta(["doctor", "--json"], { GATED_DELTA_LIBRARY: join(folder, "none.so") });
    expect(none.status).toBe(1);
    const tried = [{ source: "environment", path: join(folder, "none.so"), problem: "no such file" }];
    expect(JSON.parse(none.out)).toMatchObject({ ok: false, library: { error: expect.stringContaining("none.so"), tried } });
  });

  test("says which choices of kernels are forced", () => {
    const forced = { GATED_DELTA_PAGES: "4", GATED_DELTA_WIDE: "0" };
    const { status, out } = gatedDelta(["doctor"], forced);
    expect([status, out]).toEqual([0, expect.stringMatching(/^GATED_DELTA_PAGES: 4\nGATED_DELTA_WIDE: 0$/m)]);
    expect(JSON.parse(gatedDelta(["doctor", "--json"], forced).out)).toMatchObject({ pages: "4", wide: "0" });
  });

  test("says which instruction set is forced", () => {
    const isa = process.arch === "x64" ? "baseline" : "neon";
    const { status, out } = gatedDelta(["doctor"], { GATED_DELTA_ISA: isa });
    expect(status).toBe(0);
    expect(out).toMatch(new RegExp(`^GATED_DELTA_ISA: +${isa}$`, "m"));
    expect(out).toMatch(new RegExp(`^cpu: .*\\b${isa}\\b`, "m"));
    const unknown = gatedDelta(["doctor"], { GATED_DELTA_ISA: "mmx" });
    expect(unknown.status).toBe(1);
    expect(unknown.out).toMatch(/^backend: +none: .*GATED_DELTA_ISA.*mmx/m);
  });

  test("reports a library that is not there, is none, or lacks our functions", () => {
    const none = join(folder, "none.so");
    const garbage = newPath("garbage.so");
    writeFileSync(garbage, "not a library at all");
    for (const path of [none, garbage, process.execPath]) {
      const { status, out, errors } = gatedDelta(["doctor"], { GATED_DELTA_LIBRARY: path });
      expect([status, errors]).toEqual([1, ""]);
      expect(out).toContain("FAILED");
      expect(out).toContain(path);
      expect(out).toContain("GATED_DELTA_LIBRARY");
    }
  });

  test("survives a library that ends the process which loads it", () => {
    // The loader maps a file without its second half, and faults when it relocates it.
    const path = newPath("half.so");
    const whole = readFileSync(libraryInfo().path);
    writeFileSync(path, whole);
    truncateSync(path, 1 << 16); // its later pages are missing when the loader touches them
    const { status, out } = gatedDelta(["doctor"], { GATED_DELTA_LIBRARY: path });
    expect(status).toBe(1);
    expect(out).toContain("FAILED");
    if (process.platform === "linux") expect(out).toMatch(/was ended by SIG\w+/);
  });
});

test("rows of verify are whole lines of JSON even through a pipe", () => {
  const files = goldenFiles("layer");
  const rows = rowsOf(gatedDelta(["verify", "--json", ...files]));
  expect(new Set(rows.map(({ file }) => file))).toEqual(new Set(files));
});

test("a reader that goes away ends the command without a word", async () => {
  const main = join(import.meta.dir, "..", "lib", "cli", "main.ts");
  // More than a pipe holds, so the command must notice.
  const files = Array.from({ length: 12 }, () => goldenFiles("layer").slice(0, 1)).flat();
  const child = Bun.spawn([process.execPath, main, "verify", "--json", ...files], { stdout: "pipe", stderr: "pipe" });
  const reader = child.stdout.getReader();
  await reader.read();
  await reader.cancel();
  expect(await new Response(child.stderr).text()).toBe("");
  expect(await child.exited).toBe(141);
});
