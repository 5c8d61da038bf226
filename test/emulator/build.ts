/** Building a shader library: .metal files to one shared library, and the runner that replays recorded dispatches. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import {
  cacheFolder,
  folderText,
  hashOf,
  inParallel,
  isKept,
  kernelFlags,
  object,
  prune,
  run,
  runtimeFlags,
  runtimeFolder,
  shimFolder,
  type Sanitizer,
} from "./compile.ts";
import { emitCuda } from "./emit/cuda.ts";
import { emitRun } from "./emit/run.ts";
import { displayPath, flattened, preprocessParts } from "./frontend/preprocess.ts";
import { parseUnit, type Unit } from "./frontend/unit.ts";

export type BuildOptions = {
  readonly output: string;
  readonly sanitizer?: Sanitizer;
  /** Kernels by host name; the others are left out. */
  readonly only?: readonly string[];
  readonly defines?: readonly string[];
  /** Where paths in messages start from. */
  readonly directory?: string;
  /** Writes the C++ next to the objects, for reading. */
  readonly keep?: boolean;
  /** Called after each file that was compiled, or existed already. */
  readonly onObject?: (done: number, total: number, name: string) => void;
};

/** A name that can be part of a symbol, different for different files. */
function symbolPrefix(file: string): string {
  return `${basename(file).replace(/\W/g, "_")}_${hashOf([file]).slice(0, 6)}`;
}

type TranslateOptions = Pick<BuildOptions, "only" | "defines" | "directory">;

function partsOf(files: readonly string[], { defines, directory = process.cwd() }: TranslateOptions): Unit[] {
  const parts = preprocessParts(files, { directory, ...(defines === undefined ? {} : { defines }) });
  return files.map((file, i) => parseUnit(parts[i] ?? "", displayPath(file, directory)));
}

/** The files of a library, each as the C++ that runs, made from their flattened text. */
export function translateAll(files: readonly string[], options: TranslateOptions): { unit: Unit; code: string }[] {
  const only = options.only === undefined ? {} : { only: new Set(options.only) };
  return partsOf(files, options).map((unit) => ({
    unit,
    code: emitRun(unit, { prefix: symbolPrefix(unit.file), ...only }),
  }));
}

/** The text from which the library was made, which its host has to pass to `makeLibrary(source:)`. */
function sourceCode(text: string): string {
  // Compilers take string literals of a bounded length.
  const pieces = text.trimEnd().match(/[^]{1,8000}/g) ?? [""];
  const literals = pieces.map((piece) => `R"emulated(${piece})emulated"`).join("\n");
  return `extern "C" __attribute__((visibility("default"))) const char *emu_source() { return ${literals}; }\n`;
}

/** The shim, compiled once for all units of one kind. */
async function precompiledShim(cache: string, sanitizer: Sanitizer): Promise<string> {
  const flags = kernelFlags(sanitizer).filter((f, i, all) => f !== "-x" && all[i - 1] !== "-x");
  const file = join(cache, `shim-${hashOf([...flags, folderText(shimFolder)])}.pch`);
  mkdirSync(cache, { recursive: true });
  // The toolchain's configuration file adds linker options, which would turn this into a link.
  return await kept(file, [...flags, "--no-default-config", "-x", "c++-header", join(shimFolder, "emu.h")]);
}

/** A file that the compiler makes with these arguments, unless it exists. It is renamed into place: another process may read it. */
async function kept(file: string, args: readonly string[]): Promise<string> {
  if (isKept(file)) return file;
  const partial = `${file}.${process.pid}.tmp`;
  await run([...args, "-o", partial]);
  renameSync(partial, file);
  return file;
}

/** From this many instantiations on, kernels are compiled quickly: the projections, for every way to store a matrix. */
const manyKernels = 25;

/** A compilation to one object. */
type Job = { readonly name: string; readonly compile: () => Promise<string> };

function runtimeJobs(cache: string, sanitizer: Sanitizer): Job[] {
  const text = folderText(runtimeFolder) + folderText(shimFolder);
  // UndefinedBehaviorSanitizer brings the handlers that sanitize.cpp replaces.
  const left = sanitizer === "undefined" ? ["runner.cpp", "sanitize.cpp"] : ["runner.cpp"];
  const sources = readdirSync(runtimeFolder).filter((f) => f.endsWith(".cpp") && !left.includes(f));
  return sources.map((name) => {
    return { name, compile: () => object(cache, runtimeFlags(sanitizer), { path: join(runtimeFolder, name) }, [text]) };
  });
}

/** The runtime's objects, optimised together once for all the libraries that tests link: each check of an access is a few instructions. */
function asOne(cache: string, objects: readonly string[]): Promise<string> {
  return kept(join(cache, `runtime-${hashOf(objects)}.o`), ["-r", "-nostdlib", "-fuse-ld=lld", "-flto", "-O3", ...objects]);
}

/** Builds the library; the promise resolves to the kernels' names. Throws a CompileError, PreprocessError or SourceError. */
export async function build(files: readonly string[], options: BuildOptions): Promise<string[]> {
  const sanitizer = options.sanitizer ?? "none";
  const output = resolve(options.output);
  const cache = cacheFolder;
  mkdirSync(dirname(output), { recursive: true });
  mkdirSync(cache, { recursive: true });
  prune(cache);
  const units = translateAll(files, options);
  const names = new Map<string, string>();
  for (const { unit } of units) {
    for (const k of unit.kernels) {
      if (options.only !== undefined && !options.only.includes(k.hostName)) continue;
      const first = names.get(k.hostName);
      const place = `${k.place.file}:${k.place.line}`;
      if (first !== undefined) throw new Error(`${place}: kernel ${k.hostName} is declared at ${first} too`);
      names.set(k.hostName, place);
    }
  }
  const shim = await precompiledShim(cache, sanitizer);
  const flagsOf = (unit: Unit): string[] => [...kernelFlags(sanitizer, unit.kernels.length >= manyKernels), "-include-pch", shim];
  // The longest first, so that no processor waits for a long one at the end.
  const size = ({ unit, code }: (typeof units)[number]): number => unit.kernels.length * code.length;
  const jobs: Job[] = units.toSorted((a, b) => size(b) - size(a)).map(({ unit, code }) => ({
    name: basename(unit.file),
    compile: async () => {
      if (options.keep === true) writeFileSync(join(cache, `${basename(unit.file)}.cpp`), code);
      return await object(cache, flagsOf(unit), code, []);
    },
  }));
  const source = sourceCode(flattened(files, options.directory));
  const runtime = runtimeJobs(cache, sanitizer);
  jobs.push({ name: "the kernels' text", compile: () => object(cache, ["-x", "c++", "-fPIC", "-O1"], source, []) }, ...runtime);
  let done = 0;
  const objects = await inParallel(
    jobs.map(({ name, compile }) => async () => {
      const made = await compile();
      options.onObject?.(++done, jobs.length, name);
      return made;
    }),
  );
  const own = objects.splice(objects.length - runtime.length);
  await link(output, [...objects, ...(sanitizer === "none" ? [await asOne(cache, own)] : own)], sanitizer);
  return [...names.keys()];
}

/** A host sees only the interface; the C++ library inside is this library's own. */
function plainLink(): string[] {
  const script =
    "{ global: emu_interface_version; emu_reflection; emu_source; emu_pipeline_*; emu_dispatch; emu_string_free; local: *; };\n";
  const file = join(cacheFolder, `exports-${hashOf([script])}.map`);
  if (!existsSync(file)) {
    // Renamed into place: another process may be linking.
    const partial = `${file}.${process.pid}.tmp`;
    writeFileSync(partial, script);
    renameSync(partial, file);
  }
  return [
    "-static-libstdc++",
    "-static-libgcc",
    "-Wl,-z,defs",
    "-Wl,-Bsymbolic",
    "-Wl,--gc-sections",
    `-Wl,--version-script=${file}`,
  ];
}

async function link(output: string, objects: readonly string[], sanitizer: Sanitizer): Promise<void> {
  const stamp = `${output}.stamp`;
  const made = hashOf([...objects, sanitizer, ...plainLink()]);
  if (existsSync(output) && existsSync(stamp) && readFileSync(stamp, "utf8") === made) return;
  const libraries = sanitizer === "none" ? plainLink() : [`-fsanitize=${sanitizer}`];
  const partial = `${output}.${process.pid}.tmp`;
  await run(["-shared", "-fuse-ld=lld", "-o", partial, ...objects, ...libraries, "-ldl", "-lm"]);
  renameSync(partial, output);
  writeFileSync(stamp, made);
}

/** Writes each file's CUDA source and manifest, and the runner's sources, to a self-contained folder; returns their names. */
export function writeCuda(files: readonly string[], folder: string, directory = process.cwd()): string[] {
  mkdirSync(folder, { recursive: true });
  const names = partsOf(files, { directory }).map((unit) => {
    const { code, manifest } = emitCuda(unit);
    const name = basename(unit.file).replace(/\.metal$/, "");
    writeFileSync(join(folder, `${name}.cu`), code);
    writeFileSync(join(folder, `${name}.kernels`), manifest);
    return name;
  });
  for (const source of [
    join(import.meta.dirname, "cuda", "runner.cpp"),
    join(import.meta.dirname, "cuda", "compile.h"),
    join(runtimeFolder, "record_file.h"),
  ]) {
    writeFileSync(join(folder, basename(source)), readFileSync(source));
  }
  return names;
}

/** The runner for libraries built with a sanitizer; the promise resolves to its path. */
export async function buildRunner(sanitizer: Sanitizer): Promise<string> {
  const source = join(runtimeFolder, "runner.cpp");
  const flags = runtimeFlags(sanitizer);
  const file = join(cacheFolder, `runner-${sanitizer}-${hashOf([...flags, folderText(runtimeFolder)])}`);
  mkdirSync(cacheFolder, { recursive: true });
  const libraries = sanitizer === "none" ? ["-static-libstdc++", "-static-libgcc"] : [`-fsanitize=${sanitizer}`];
  return await kept(file, [...flags, source, "-x", "none", "-fuse-ld=lld", ...libraries, "-ldl"]);
}
