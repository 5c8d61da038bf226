// Makes an unpacked toolchain run at its final place: its programs on its own glibc, its compiler on its own sysroot.
// All paths written are those of the final place, so that a staged prefix needs nothing but a rename.
import { closeSync, existsSync, lstatSync, mkdirSync, openSync, readFileSync, readSync, readdirSync, readlinkSync, symlinkSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { run, tail } from "../scripts/exec.mjs";
import { withProgress } from "../scripts/progress.mjs";
import { Failure, say } from "../scripts/report.mjs";
import { layout, loader, triple } from "./recipe.mjs";
import { filesIn } from "./debian.mjs";

/** A program of a prefix that can't run by itself yet (or on this system's glibc): started through a loader with its libraries. */
function through(libraries, program) {
  const [first] = libraries;
  return (...args) => run(join(first, loader), ["--library-path", libraries.join(":"), program, ...args]);
}

async function must(result, doing) {
  const done = await result;
  if (done.code === 0) return done.text;
  if (/No space left/.test(done.text)) throw new Failure("the disk is full: free 3.5 GB for the Swift toolchain and run the same command again.");
  process.stderr.write(`${tail(done.text)}\n`);
  throw new Failure(`${doing} failed: see the message above, then run the same command again.`);
}

function isElf(file) {
  const bytes = Buffer.alloc(4);
  const handle = openSync(file, "r");
  try {
    return readSync(handle, bytes, 0, 4, 0) === 4 && bytes.toString("latin1") === "\x7fELF";
  } finally {
    closeSync(handle);
  }
}

/** Every regular file and link below a folder. */
function* below(folder) {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const info = lstatSync(path);
    if (info.isDirectory()) yield* below(path);
    else yield { path, link: info.isSymbolicLink() };
  }
}

/** Links that begin with / would leave the sysroot for this system's own files. */
export function makeLinksRelative(sysroot) {
  for (const { path, link } of below(sysroot)) {
    const target = link ? readlinkSync(path) : "";
    if (!target.startsWith("/")) continue;
    rmSync(path);
    symlinkSync(relative(dirname(path), join(sysroot, target)), path);
  }
}

/** Interpreter and library paths of the toolchain's programs and libraries. */
async function patchPrograms(staged, final) {
  const sysroot = join(staged, layout.sysroot);
  const patchelf = through([join(sysroot, "lib", triple), join(sysroot, "usr/lib", triple)], join(sysroot, "usr/bin/patchelf"));
  const libraries = join(final, layout.libraries);
  const files = [...below(join(staged, layout.swift))].filter(({ path, link }) => !link && isElf(path)).map(({ path }) => path);
  const shared = files.filter((path) => /\.so(\.|$)/.test(path));
  // The rest of the ELF files are programs, those in libexec (swift-backtrace) included, and objects and archives, which stay.
  const programs = files.filter((path) => !shared.includes(path) && (lstatSync(path).mode & 0o111) !== 0);
  let done = 0;
  await withProgress("relocating the Swift toolchain", async () => {
    for (const file of [...programs, ...shared]) {
      done++;
      const program = programs.includes(file);
      // A static program needs nothing.
      if (program && (await patchelf("--print-interpreter", file)).code !== 0) continue;
      const flags = program ? ["--set-interpreter", join(libraries, loader), "--force-rpath"] : [];
      const old = (await must(patchelf("--print-rpath", file), "reading a program's library path")).trim();
      const path = [...old.split(":").filter((part) => part !== "" && part !== libraries), libraries].join(":");
      await must(patchelf(...flags, "--set-rpath", path, file), "relocating the Swift toolchain");
    }
  }, () => ({ done, total: programs.length + shared.length, text: `${done} of ${programs.length + shared.length} files` }));
}

/**
 * Writes clang's configuration files: link with the prefix's own linker (a bare system has none), and let the
 * programs that SwiftPM builds and runs (manifests, tests) use the prefix's glibc, which their Swift libraries need. The
 * product is linked without these files: see swift/scripts/swift.mjs. The sysroot reaches Swift and the C compiler by
 * SDKROOT and flags, since Swift's importer would read only a part of it from here; clang++ is run by itself and has it here.
 */
export function clangConfiguration(name, final) {
  const libraries = join(final, layout.libraries);
  const lines = [
    ...(name === "clang++" ? [`--sysroot=${join(final, layout.sysroot)}`] : []),
    "-fuse-ld=lld",
    `-Wl,--dynamic-linker=${join(libraries, loader)}`,
    `-Wl,-rpath,${libraries}`,
    "-Wl,--allow-shlib-undefined",
    "-Wno-unused-command-line-argument",
  ];
  return lines.map((line) => `"${line}"\n`).join("");
}

/** The sysroot in `staged` as Swift wants it, and the C library as the product is linked with it. */
export function prepareSysroot(staged) {
  const sysroot = join(staged, layout.sysroot);
  makeLinksRelative(sysroot);
  // Swift's driver warns at every call when an SDK does not describe itself.
  writeFileSync(join(sysroot, "SDKSettings.json"), '{"CanonicalName":"linux","Version":"12.0","VersionMap":{}}\n');
  // Debian's own libc.so also names the dynamic loader, which would make the product ask for it as well as for libc and libm; it is
  // there in every process, so two of its functions may stay unresolved until the product is loaded.
  mkdirSync(join(staged, layout.product), { recursive: true });
  writeFileSync(join(staged, layout.product, "libc.so"), "GROUP ( libc.so.6 libc_nonshared.a )\n");
}

/**
 * Adds the functions that Debian 12's glibc lacks to a static Swift runtime, and takes libstdc++ into the product. `runtime` is the
 * folder of the archives, `target` the triple that they are for, `source` is glibc.c, and `clang` and `ar` run these programs.
 */
export async function completeStaticRuntime(runtime, target, source, { clang, ar }) {
  const object = join(runtime, "glibc.o");
  const flags = ["-c", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-ffreestanding", `--target=${target}`];
  await must(clang("--no-default-config", ...flags, source, "-o", object), "compiling swift/toolchain/glibc.c");
  await must(ar("r", join(runtime, "libswiftCore.a"), object), "completing the static Swift runtime");
  rmSync(object);
  const list = join(runtime, "static-stdlib-args.lnk");
  writeFileSync(list, readFileSync(list, "utf8").replace(/^-lstdc\+\+$/m, "-l:libstdc++.a"));
}

/** Steps 3 to 6 of the recipe, on a prefix in `staged` that will be moved to `final`. `source` is glibc.c. */
export async function relocate(staged, final, source) {
  say("relocating the Swift toolchain");
  prepareSysroot(staged);
  const bin = join(staged, layout.swift, "bin");
  const clang = filesIn(bin).find((name) => /^clang-\d+$/.test(name));
  if (clang === undefined) throw new Failure("the Swift package holds no clang: the recipe in swift/toolchain no longer fits it; install Swift 6.0 or later from swift.org.");
  const libraries = [join(staged, layout.libraries)];
  const programs = { clang: through(libraries, join(bin, clang)), ar: through(libraries, join(bin, "llvm-ar")) };
  await completeStaticRuntime(join(staged, layout.swift, layout.staticRuntime), triple, source, programs);
  await patchPrograms(staged, final);
  for (const name of ["clang", "clang++", clang]) writeFileSync(join(bin, `${name}.cfg`), clangConfiguration(name, final));
  if (!existsSync(join(bin, "swift"))) throw new Failure("the Swift package holds no swift: install Swift 6.0 or later from swift.org.");
}
