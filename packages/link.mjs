// The library as it is published: the objects of the clone's build, linked again without the parts that only tests need, and with no more
// of Swift's runtime than they use. On macOS the runtime is part of the system, and the linker drops unused parts by default.
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { buildFlags, libraryFile } from "../swift/scripts/build.mjs";
import { quick, run, tail } from "../swift/scripts/exec.mjs";
import { Failure } from "../swift/scripts/report.mjs";
import { productFlags, swiftEnvironment } from "../swift/scripts/swift.mjs";
import { releaseSections } from "./elf.mjs";
import { haveMetalCompiler, makeMetallib } from "./metallib.mjs";

/** The archives of Swift's runtime that our objects name. */
const archives = ["libswiftCore.a", "libswiftSynchronization.a", "libswiftGlibc.a"];

/**
 * No tables for unwinding the stack: 0.65 MB. They serve exceptions, which are not used here (Swift throws by returning, the
 * C kernels do not throw, and a runtime failure ends the process), and debuggers, which can use the clone's build.
 */
const script = "SECTIONS { /DISCARD/ : { *(.eh_frame) } } INSERT AFTER .rodata;\n";

/**
 * The names of Unicode's characters: 0.5 MB of tables, which Swift's runtime keeps for `Unicode.Scalar.Properties.name` and `nameAlias`.
 * Nothing here uses them (a test reads the sources), so calls to these functions lead to the runtime's own fatal error instead.
 */
const unused = ["_swift_stdlib_getScalarName", "_swift_stdlib_getNameAlias"];
const withoutUnused = unused.flatMap((name) => [`--wrap=${name}`, `--defsym=__wrap_${name}=swift_deletedMethodError`]);

/**
 * Objects that only tests need. Nothing published refers to them, so the linker drops them, except for code that the compiler put
 * there for the module. On macOS, Package.swift leaves their files out.
 */
const forTests = /\/(?:GatedDelta\.build\/Testing|MetalBackend\.build\/Emulate|Metal\.build\/Emulation)\.swift\.o$|\/emulator_loader\.c\.o$/;

/** The compiler's own name for a linker's flag. */
const forLinker = (...flags) => flags.flatMap((flag) => ["-Xlinker", flag]);

/**
 * Links into `target`, a path; returns the linker's map, null on macOS. `cross` is the result of buildCross if the library is for
 * another processor.
 */
export async function linkLibrary({ root, toolchain, cross }, work, target) {
  if (process.platform === "darwin") {
    const metallib = haveMetalCompiler() ? await makeMetallib(root, join(work, "gated-delta.metallib")) : undefined;
    cpSync(await publishedBuild({ root, toolchain, metallib }), target);
    // A changed file needs a new signature, or the system kills programs that load it.
    for (const [tool, ...args] of [["strip", "-x", target], ["codesign", "--force", "--sign", "-", target]]) {
      const { code, text } = await run(tool, args);
      if (code !== 0) throw new Failure(`${tool} failed:\n${tail(text)}`);
    }
    return null;
  }
  mkdirSync(work, { recursive: true });
  const map = join(work, "link.map");
  writeFileSync(join(work, "discard.ld"), script);
  const objects = join(work, "Objects.LinkFileList");
  const built = readFileSync(cross?.objects ?? objectList(root), "utf8").split("\n");
  writeFileSync(objects, built.map((file) => (forTests.test(file) ? released(file, work) : file)).join("\n"));
  const env = swiftEnvironment(toolchain, root);
  const args = [
    "-emit-library",
    // SwiftPM's own flags for linking the product, without its driver's `-Xswiftc`.
    ...(cross?.flags ?? productFlags(toolchain).filter((flag) => flag !== "-Xswiftc")),
    ...(toolchain.prefix === null ? ["-use-ld=lld"] : []),
    ...trimmedRuntime(cross?.runtime ?? runtimeFolder(toolchain, env), work),
    `@${objects}`,
    ...forLinker("--gc-sections", "--strip-all", "--no-eh-frame-hdr", "-T", join(work, "discard.ld")),
    ...forLinker(...withoutUnused),
    ...forLinker(`--version-script=${join(root, "swift/Sources/CGatedDelta/published.map")}`, "-z", "nodelete", "-soname", basename(target)),
    ...forLinker(`-Map=${map}`),
    "-o", target,
  ];
  const { code, text } = await run(join(toolchain.swift, "..", "swiftc"), args, { env });
  if (code !== 0) throw new Failure(`the library could not be linked:\n${tail(text, 30)}`);
  return readFileSync(map, "utf8");
}

/**
 * A second build, without the parts for tests, and with the compiled Metal kernels. The CPU kernels' objects are those of the clone's
 * build.
 */
async function publishedBuild({ root, toolchain, metallib }) {
  const scratch = join(root, ".build", "published");
  const kernels = join(root, ".build", "release", "CPUKernels.build");
  const built = existsSync(join(kernels, "isa_neon.c.o")) ? { GATED_DELTA_KERNELS: kernels } : {};
  const env = { ...swiftEnvironment(toolchain, root), ...built, ...(metallib && { GATED_DELTA_METALLIB: metallib }), GATED_DELTA_PUBLISHED: "1" };
  const args = ["build", "-c", "release", "--product", "GatedDelta", "--scratch-path", scratch, ...buildFlags(toolchain, root)];
  const { code, text } = await run(toolchain.swift, args, { cwd: root, env });
  if (code !== 0) throw new Failure(`the library could not be built:\n${tail(text, 30)}`);
  return join(scratch, "release", basename(libraryFile(root)));
}

/** The list that SwiftPM leaves of the objects that it linked. */
function objectList(root) {
  return join(root, ".build", "release", "GatedDelta.product", "Objects.LinkFileList");
}

/** The folder of the compiler's own static runtime. */
function runtimeFolder(toolchain, env) {
  const info = quick(join(toolchain.swift, "..", "swiftc"), ["-print-target-info", "-static-stdlib"], { env });
  const [folder] = JSON.parse(info ?? "{}").paths?.runtimeLibraryPaths ?? [];
  if (folder === undefined) throw new Failure("swiftc does not say where its static runtime is: use another Swift 6.0 or later.");
  return folder;
}

/** Copies of the runtime's archives, from which a linker may drop unreferenced parts. They come first, so the linker uses them. */
function trimmedRuntime(folder, work) {
  return archives.map((name) => released(join(folder, name), work));
}

/** A copy of an object or archive from which a linker may drop unreferenced parts. */
function released(file, work) {
  const bytes = readFileSync(file);
  releaseSections(bytes);
  const copy = join(work, basename(file));
  writeFileSync(copy, bytes);
  return copy;
}

/**
 * Bytes of the linked file by origin, largest first: our own targets, the archives of the runtime, and the linker's own
 * tables (relocations, merged strings).
 */
export function bytesByOrigin(map) {
  const sums = new Map();
  // VMA LMA size alignment file:(section)
  for (const [, size, file, section] of map.matchAll(/^ *[0-9a-f]+ +[0-9a-f]+ +([0-9a-f]+) +\d+ {9}(\S.*?):\((.*)\)$/gm)) {
    if (/^\.t?bss/.test(section) || section.startsWith(".debug")) continue;
    const archive = /([^/]+\.a)\(/.exec(file)?.[1];
    const target = /\/(\w+)\.build\/([^/]+)$/.exec(file);
    const kernels = target?.[1] === "CPUKernels" && target[2].startsWith("isa_");
    const origin = archive ?? (kernels ? `CPUKernels, ${target[2].replace(/^isa_|\.c\.o$/g, "")}` : target?.[1]) ?? (file === "<internal>" ? "relocations and merged strings" : "other");
    sums.set(origin, (sums.get(origin) ?? 0) + Number.parseInt(size, 16));
  }
  return [...sums].map(([name, bytes]) => ({ name, bytes })).sort((a, b) => b.bytes - a.bytes);
}
