// The steps of a user who has only Bun: installs gated-delta from a registry into an empty folder, runs the programs of the guides
// and the command, and compiles an agent into one program. Runs in Bun, and prints one line per check.
//
//   bun consumer.mjs FOLDER   with FOLDER/plan.json: { registry, version, platform, others, checkpoint, programs: { name: text }, install }
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.argv[2];
const plan = JSON.parse(readFileSync(join(folder, "plan.json"), "utf8"));
const bun = process.execPath;
const [home, project, temporary] = ["home", "project", "tmp"].map((name) => join(folder, name));
for (const path of [home, project, temporary]) mkdirSync(path);

// Nothing on PATH but Bun and the means to start a command; npm's npx if the caller has put it there.
const PATH = plan.path ?? join(folder, "bin");
if (plan.path === undefined) {
  mkdirSync(PATH);
  for (const name of ["bun", "bunx"]) symlinkSync(bun, join(PATH, name));
}
const env = { HOME: home, PATH, TMPDIR: temporary, DO_NOT_TRACK: "1", npm_config_registry: plan.registry, npm_config_update_notifier: "false" };

/** Runs a command in the project, or in `cwd`; returns its exit status and output. */
function run(command, { cwd = project, extra = {} } = {}) {
  const child = Bun.spawnSync(command, { cwd, env: { ...env, ...extra }, stdout: "pipe", stderr: "pipe", timeout: 180_000 });
  return { status: child.exitCode, out: child.stdout.toString(), errors: child.stderr.toString() };
}

function expect(condition, message) {
  if (!condition) throw new Error(message);
}

/** Runs a command that must succeed; returns its stdout. */
function must(command, options) {
  const { status, out, errors } = run(command, options);
  expect(status === 0, `${command.join(" ")} ended with ${status}:\n${out}${errors}`);
  return out;
}

function matches(text, pattern) {
  expect(pattern.test(text), `expected ${pattern} in:\n${text}`);
}

const modules = join(project, "node_modules");
const elsewhere = join(folder, "elsewhere");
const compiled = join(elsewhere, "agent");
const libraries = join(home, ...(process.platform === "darwin" ? ["Library", "Caches"] : [".cache"]), "gated-delta", "libraries");
const ended = /^: token \d+(?: -?\d[\d.e-]*){3}$/m;

/** The agent's two lines, from this process and from the next one, have the same bits. */
function agentSays(out) {
  const [here, there] = out.trim().split("\n").map((line) => line.slice(line.indexOf(": ")));
  matches(here, ended);
  expect(here === there, `the resumed agent differs:\n${out}`);
}

const checks = {
  "bun add gated-delta, with this platform's library and no other"() {
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "project", private: true, type: "module" }));
    const [program, ...args] = plan.install; // docs/examples/install.sh
    expect([program, ...args].join(" ") === "bun add gated-delta", `the guide says ${plan.install.join(" ")}`);
    must([bun, ...args.with(-1, `${args.at(-1)}@${plan.version}`), "--no-progress"]);
    const installed = readdirSync(join(modules, "@gated-delta"));
    expect(installed.join() === plan.platform, `installed were ${installed.join(", ")}`);
    for (const name of ["gated-delta", `@gated-delta/${plan.platform}`]) {
      const { version, scripts } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
      expect(version === plan.version, `${name} is ${version}`);
      expect(scripts === undefined, `${name} has scripts`);
    }
  },
  "the guide's operations"() {
    writeFileSync(join(project, "first.ts"), plan.programs.first);
    const out = must([bun, "first.ts"]);
    matches(out, /^(?:cpu|metal), .+: prefilled 7 tokens, decoded 3$/m);
    matches(out, /^first numbers:(?: -?\d\.\d{4}){4}$/m);
  },
  "the README's ten lines, with the tiny model of the package"() {
    writeFileSync(join(project, "lake.ts"), plan.programs.lake);
    const out = must([bun, "lake.ts"]);
    expect(out.split("\n").length >= 4 && out.length > 60, `three answers were expected, got:\n${out}`);
  },
  "the guide's layer and agent"() {
    mkdirSync(join(project, "test", "golden"), { recursive: true });
    copyFileSync(plan.checkpoint, join(project, "test", "golden", "layer-bf16.safetensors"));
    writeFileSync(join(project, "layer.ts"), plan.programs.layer);
    matches(must([bun, "layer.ts"]), /hiddenSize: 192/);
    writeFileSync(join(project, "agent.ts"), plan.programs.agent);
    agentSays(must([bun, "agent.ts"]));
  },
  "a session in a file, in the project and in a compiled program, whose Workers have no files"() {
    const model = join(modules, "gated-delta", "test", "golden", "models", "qwen3_5-mlx-mixed");
    writeFileSync(join(project, "session.ts"), `
      import { Device } from "gated-delta";
      import { LanguageModel, Session } from "gated-delta/model";
      using device = Device.open("cpu");
      using model = await LanguageModel.load(device, ${JSON.stringify(model)}, { states: 2, pages: 4 });
      using session = model.session().append([1, 2, 3]);
      await session.logits();
      await session.save(process.argv.at(-1)!);
      using loaded = await Session.load(model, process.argv.at(-1)!);
      console.log(loaded.read, await model.identity());
    `);
    const [path, program] = [join(temporary, "session.safetensors"), join(temporary, "session")];
    const caches = { GATED_DELTA_CACHE: join(temporary, "no identities yet") };
    const out = must([bun, "session.ts", path]);
    matches(out, /^3 [0-9a-f]{64}$/m);
    for (const how of [[], ["--minify"]]) {
      must([bun, "build", "--compile", ...how, "session.ts", "--outfile", program]);
      expect(must([program, path], { cwd: temporary, extra: caches }) === out, "a compiled program has another identity");
      rmSync(caches.GATED_DELTA_CACHE, { recursive: true });
    }
    rmSync(program);
  },
  "gated-delta doctor, through bunx and, where there is one, npx"() {
    const commands = [[bun, "x", "gated-delta", "doctor"], ...(plan.npx ? [["npx", "gated-delta", "doctor"]] : [])];
    for (const command of commands) {
      const out = must(command);
      matches(out, new RegExp(`^package: +gated-delta ${plan.version.replaceAll(".", "\\.")} in `, "m"));
      matches(out, /^library: +.+, from the platform package$/m);
      expect(out.includes(join(modules, "@gated-delta", plan.platform)), out);
    }
  },
  "gated-delta demo and verify, within the bounds"() {
    matches(must([bun, "x", "gated-delta", "demo", "--backend", "cpu"]), /^All outputs agree with the reference\.$/m);
    must([bun, "x", "gated-delta", "verify", "--backend", "cpu", plan.checkpoint]);
  },
  "Node is told that the package needs Bun"() {
    const program = 'import { Device } from "gated-delta"; import { LanguageModel } from "gated-delta/model"; console.log(Device, LanguageModel);';
    writeFileSync(join(project, "node.mjs"), program);
    for (const entry of ["index", "ai", "ggml", "model", "server"]) {
      const compare = `const [a, b] = await Promise.all(["node.js", "js"].map((end) => import("./node_modules/gated-delta/dist/${entry}." + end))); console.log(Object.keys(a).join() === Object.keys(b).join());`;
      expect(must([bun, "-e", compare]).trim() === "true", `dist/${entry}.node.js has other names`);
    }
    const node = Bun.which("node", { PATH: env.PATH });
    if (node === null) return;
    const { status, errors } = run([node, "node.mjs"]);
    expect(status === 1, errors);
    matches(errors, /Error: gated-delta needs Bun 1\.\d+\.\d+ or later, and this is Node\.js/);
  },
  "bun build --compile of an agent, which runs elsewhere without any other file"() {
    mkdirSync(elsewhere);
    // A compiled program is started by its own name, without further arguments.
    const change = (text, from, to) => {
      expect(text.includes(from), `the guide's agent has no ${from}`);
      return text.replace(from, to);
    };
    const text = change(plan.programs.agent, "process.execPath, import.meta.path, path", "process.execPath, path");
    const where = `import { libraryInfo } from "gated-delta";\nif (process.env["SHOW"]) console.error(libraryInfo().source, libraryInfo().path);\n`;
    writeFileSync(join(project, "compiled.ts"), where + change(text, "test/golden/layer-bf16.safetensors", plan.checkpoint));
    must([bun, "build", "--compile", "compiled.ts", "--outfile", compiled]);
    renameSync(project, `${project}-gone`);
    expect(readdirSync(elsewhere).join() === "agent", "there are other files next to the program");
    agentSays(must([compiled], { cwd: elsewhere }));
    const { errors } = run([compiled], { cwd: elsewhere, extra: { SHOW: "1" } });
    matches(errors, /^embedded \/.+\/libraries\/libGatedDelta-[0-9a-f]{32}\.(?:so|dylib)$/m);
  },
  "bun build --compile for another platform, whose library is not installed, and its installation"() {
    renameSync(`${project}-gone`, project);
    for (const name of plan.others) {
      const { status, errors } = run([bun, "build", "--compile", `--target=bun-${name}`, "compiled.ts", "--outfile", join(temporary, "other")]);
      expect(status === 1, `compiled for ${name} without its library`);
      matches(errors, new RegExp(`Could not resolve: "@gated-delta/${name}"`));
      matches(errors, /not installed\? bun install --os='\*' --cpu='\*'/);
    }
    must([bun, "install", "--os=*", "--cpu=*", "--no-progress"]); // docs/install.md
    const installed = readdirSync(join(modules, "@gated-delta")).sort();
    expect(installed.join() === [plan.platform, ...plan.others].sort().join(), `installed were ${installed.join(", ")}`);
    for (const name of plan.others) rmSync(join(modules, "@gated-delta", name), { recursive: true });
    renameSync(project, `${project}-gone`);
  },
  "the unpacked library: one file, by eight programs at once"() {
    rmSync(libraries, { recursive: true });
    const children = Array.from({ length: 8 }, () => Bun.spawn([compiled], { cwd: elsewhere, env, stdout: "pipe", stderr: "pipe" }));
    return Promise.all(children.map(async (child) => {
      const out = await child.stdout.text();
      expect((await child.exited) === 0, await child.stderr.text());
      agentSays(out);
    })).then(() => expect(readdirSync(libraries).length === 1, readdirSync(libraries).join()));
  },
  "a damaged unpacked library is replaced"() {
    const [name] = readdirSync(libraries);
    const file = join(libraries, name);
    const bytes = readFileSync(file);
    for (const damaged of [bytes.subarray(0, 4096), Buffer.from(bytes).fill(0x90, 8192, 16384)]) {
      chmodSync(file, 0o700);
      writeFileSync(file, damaged);
      agentSays(must([compiled], { cwd: elsewhere }));
      expect(readFileSync(file).equals(bytes), "the damaged file is still there");
    }
  },
  "a folder that others can write to is not used"() {
    chmodSync(libraries, 0o777);
    const out = run([compiled], { cwd: elsewhere, extra: { SHOW: "1" } });
    expect(out.status === 0, out.errors);
    expect(!out.errors.includes(libraries), out.errors);
    chmodSync(libraries, 0o700);
  },
  "a home that can't be written and one that is not there"() {
    for (const path of ["/proc/1/nowhere", join(folder, "no", "such", "home")]) {
      const { status, errors } = run([compiled], { cwd: elsewhere, extra: { HOME: path, SHOW: "1" } });
      expect(status === 0, errors);
    }
  },
  "without its library the package says what to do"() {
    renameSync(`${project}-gone`, project);
    const library = join(modules, "@gated-delta");
    cpSync(library, join(folder, "kept"), { recursive: true });
    rmSync(library, { recursive: true });
    const { status, errors } = run([bun, "first.ts"]);
    expect(status !== 0, "a program ran without a library");
    matches(errors, new RegExp(`@gated-delta/${plan.platform}: not installed`));
    matches(errors, /optional dependency of gated-delta: install gated-delta again/);
    expect(!/npm run/.test(errors), errors);
    expect(existsSync(join(folder, "kept")) && statSync(join(folder, "kept")).isDirectory(), "the library was kept");
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  const since = performance.now();
  try {
    await check();
    console.log(`ok      ${name} (${((performance.now() - since) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed++;
    console.log(`NOT OK  ${name}: ${error instanceof Error ? error.message : error}`);
    break; // each check continues from the previous one
  }
}
console.log(`${failed === 0 ? Object.keys(checks).length : 0} checks of an installed package passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
