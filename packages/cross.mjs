// Builds the library for arm64 on x86-64 (both Linux). The private toolchain's compiler supports both processors, but lacks the
// headers and libraries of the other one: Debian 12's C library and Swift's static runtime. They are fetched as Debian
// packages, like the toolchain, and kept next to it.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isNoise } from "../swift/scripts/build.mjs";
import { run, tail } from "../swift/scripts/exec.mjs";
import { withLock } from "../swift/scripts/lock.mjs";
import { withProgress } from "../swift/scripts/progress.mjs";
import { Failure, say } from "../swift/scripts/report.mjs";
import { readStamp, writeStamp } from "../swift/scripts/stamp.mjs";
import { swiftEnvironment, withoutDebugInfo } from "../swift/scripts/swift.mjs";
import { aptRoot, fetchPackages, plan, unpack } from "../swift/toolchain/debian.mjs";
import { cacheFolder } from "../swift/toolchain/install.mjs";
import { mirror } from "../swift/toolchain/mirror.mjs";
import { architectures, compiler, layout, revision, sysroot, version } from "../swift/toolchain/recipe.mjs";
import { completeStaticRuntime, prepareSysroot } from "../swift/toolchain/relocate.mjs";

const source = fileURLToPath(new URL("../swift/toolchain/glibc.c", import.meta.url));

/** Where the compiler's package has the runtimes, and where a target has them. */
const packaged = join(layout.swift, "lib");
const kept = "lib";

/** Whether this system can build the library of another `platform`. */
export function canCross(platform, { platform: os, arch } = process) {
  return os === "linux" && arch === "x64" && platform.os === "linux" && platform.cpu === "arm64";
}

/** The folder of the files with which `platform`'s libraries are linked. */
export function targetFolder(platform) {
  return join(cacheFolder(), `swift-${version}-${platform.name}`);
}

/** Makes that folder unless it exists, and returns it. */
async function ensureTarget(platform, toolchain) {
  const cache = cacheFolder();
  const folder = targetFolder(platform);
  const isThere = () => {
    const stamp = readStamp(join(folder, layout.stamp));
    return stamp?.swift === version && stamp.revision === revision;
  };
  if (isThere()) return folder;
  mkdirSync(cache, { recursive: true });
  await withLock(join(cache, `.lock-${platform.name}`), `set-up of what ${platform.name} is linked with`, async () => {
    if (!isThere()) await makeTarget(platform, toolchain, folder);
  });
  return folder;
}

async function makeTarget(platform, toolchain, folder) {
  const uri = mirror();
  if (uri === null) throw new Failure("no Debian mirror among this system's package sources: set GATED_DELTA_DEBIAN_MIRROR to the address of one, and run the same command again.");
  const { debian, triple } = architectures[platform.cpu];
  const staged = `${folder}.staged`;
  const downloads = `${folder}.downloads`;
  rmSync(staged, { recursive: true, force: true });
  say(`fetching what ${platform.name} is linked with into ${folder}, once (0.6 GB to fetch, 0.3 GB to keep)`);
  const parts = [
    { suite: sysroot.suite, packages: sysroot.packages.filter((name) => name.endsWith("-dev")), target: join(staged, layout.sysroot), wanted: () => true },
    // Only the compiler's libraries; its programs are for the other processor.
    { suite: compiler.suite, packages: compiler.packages, target: join(staged, "unpacked"), wanted: ({ name }) => /^swiftlang_/.test(name) },
  ];
  for (const { suite, packages, target, wanted } of parts) {
    const apt = aptRoot(join(downloads, suite), suite, uri, debian);
    const files = await plan(apt, packages);
    await fetchPackages(apt, packages, files, `${platform.name}, ${suite}`);
    await unpack(apt, files.filter(wanted), target, `${platform.name}, ${suite}`);
  }
  prepareSysroot(staged);
  mkdirSync(join(staged, kept));
  // The first refers to the second for the compiler's own headers.
  for (const name of ["swift_static", "clang"]) renameSync(join(staged, "unpacked", packaged, name), join(staged, kept, name));
  rmSync(join(staged, "unpacked"), { recursive: true });
  const program = (name) => (...args) => run(join(dirname(toolchain.swift), name), args);
  await completeStaticRuntime(join(staged, layout.staticRuntime), triple, source, { clang: program("clang"), ar: program("llvm-ar") });
  writeStamp(join(staged, layout.stamp), { swift: version, revision });
  rmSync(folder, { recursive: true, force: true });
  renameSync(staged, folder);
  rmSync(downloads, { recursive: true, force: true });
}

/**
 * Builds the library for `platform`. Returns the inputs of its second link: `{ flags, objects, runtime }`, the Swift
 * compiler's flags, the list of the objects, and the folder of the runtime's archives.
 */
export async function buildCross({ root, toolchain }, platform) {
  if (toolchain.prefix === null) throw new Failure(`${platform.name} is built with the private toolchain, whose runtime is the packages' own: take swift off PATH and run the same command again.`);
  const target = await ensureTarget(platform, toolchain);
  const { triple } = architectures[platform.cpu];
  const place = join(target, layout.sysroot);
  const linker = (...flags) => flags.flatMap((flag) => ["-Xclang-linker", flag]);
  const flags = [
    "-static-stdlib", "-resource-dir", join(target, kept, "swift_static"), "-sdk", place, "-use-ld=lld",
    ...linker("-static-libgcc", "--no-default-config", `--sysroot=${place}`, `-L${join(target, layout.product)}`),
  ];
  const scratch = join(root, ".build", platform.name);
  const caches = join(root, ".build", "caches");
  const swiftTriple = triple.replace("-linux", "-unknown-linux");
  // Passed as a destination, since flags on the command line would also apply to the build tools, which run here.
  const destination = join(scratch, "destination.json");
  mkdirSync(scratch, { recursive: true });
  writeFileSync(destination, `${JSON.stringify({
    version: 1, target: swiftTriple, sdk: place, "toolchain-bin-dir": dirname(toolchain.swift),
    "extra-cc-flags": ["-fPIC", `--sysroot=${place}`, `--gcc-toolchain=${join(place, "usr")}`], "extra-cpp-flags": [], "extra-swiftc-flags": flags,
  }, null, 2)}\n`);
  const args = [
    "build", "-c", "release", "--product", "GatedDelta", "--destination", destination, "--scratch-path", scratch, ...withoutDebugInfo,
    "--cache-path", join(caches, "swiftpm"), "--config-path", join(caches, "configuration"), "--security-path", join(caches, "security"),
  ];
  say(`building the library for ${platform.name} (minutes)`);
  const { code, text } = await withProgress(`building ${platform.name}`, () => run(toolchain.swift, args, { cwd: root, env: swiftEnvironment(toolchain, root) }));
  const said = text.split("\n").filter((line) => !isNoise(line)).join("\n");
  const objects = join(scratch, "release", "GatedDelta.product", "Objects.LinkFileList");
  if (code !== 0 || !existsSync(objects)) throw new Failure(`the library could not be built for ${platform.name}:\n${tail(said, 30)}`);
  return { flags: ["-target", swiftTriple, ...flags], objects, runtime: join(target, layout.staticRuntime) };
}
