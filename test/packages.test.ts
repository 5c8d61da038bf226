/** The packages of a release: their manifests, the systems that they name, and how a library is linked and inspected. */
import { beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { whyTooOld, whyUnsupported, type System } from "../lib/native/platform.ts";
import { libraryInfo } from "../lib/index.ts";
import { tinyModel } from "../lib/model.ts";
import { archivedManifest, installCommand } from "../packages/archives.mjs";
import { demandsOf, loadedSections, newestGlibc, releaseSections } from "../packages/elf.mjs";
import { bytesByOrigin, linkLibrary } from "../packages/link.mjs";
import { packedManifest } from "../packages/main-package.mjs";
import { namesOf, nodeEntry } from "../packages/node-entry.mjs";
import { platformManifest, tracesOfTests } from "../packages/platform-package.mjs";
import { cloneManifest, packageName, platforms } from "../packages/platforms.mjs";
import { problemsOf, publishFlags } from "../packages/publish.mjs";
import { lastToolchain } from "../swift/scripts/build.mjs";
import { bar } from "../swift/scripts/progress.mjs";
import { findSwift } from "../swift/scripts/swift.mjs";
import { oldestGlibc as toolchainGlibc } from "../swift/toolchain/recipe.mjs";
import { exportsOf } from "./support/exports.ts";
import { scratch } from "./support/files.ts";

const root = join(import.meta.dir, "..");
const clone = cloneManifest();
const { newPath } = scratch();
const github = { GITHUB_SERVER_URL: "https://git.example", GITHUB_REPOSITORY: "someone/gated-delta" };
const repository = { type: "git", url: "git+https://git.example/someone/gated-delta.git" };

describe("the manifest of gated-delta", () => {
  const packed = packedManifest(clone, github);

  test("names what is compiled from each of the clone's exports", () => {
    expect(Object.keys(packed.exports)).toEqual(Object.keys(clone.exports));
    expect(packed.exports["."]).toEqual({ types: "./dist/index.d.ts", bun: "./dist/index.js", node: "./dist/index.node.js", default: "./dist/index.js" });
    expect(packed.exports["./package.json"]).toBe("./package.json");
    const more = packedManifest({ ...clone, exports: { ...clone.exports, "./some/path": "./lib/some/file.ts" } });
    const compiled = "./dist/some/file.js";
    expect(more.exports["./some/path"]).toEqual({ types: "./dist/some/file.d.ts", bun: compiled, node: "./dist/some/file.node.js", default: compiled });
  });

  test("runs nothing on installation and brings every platform's library in its own version", () => {
    expect(packed).not.toHaveProperty("scripts");
    expect(packed).not.toHaveProperty("devDependencies");
    expect(packed).not.toHaveProperty("private");
    expect(packed.dependencies).toEqual(clone.dependencies);
    const names = platforms.map(packageName);
    expect(packed.optionalDependencies).toEqual(Object.fromEntries(names.map((name: string) => [name, clone.version])));
  });

  test("names no package in an archive that a registry would be asked for", () => {
    const { optionalDependencies, peerDependencies: peers, peerDependenciesMeta: _, ...rest } = packed;
    const { peerDependencies, peerDependenciesMeta, ...archived } = archivedManifest(packed);
    expect(archived).toEqual(rest);
    expect(peers).toEqual(clone.peerDependencies);
    expect(peerDependencies).toEqual({ ...peers, ...optionalDependencies });
    expect(peerDependenciesMeta).toEqual(Object.fromEntries(Object.keys(peerDependencies).map((name: string) => [name, { optional: true }])));
    const library = platformManifest(platforms[0], clone);
    expect(archivedManifest(library)).toEqual(library);
  });

  test("the command that installs archives is one that a shell takes as it stands", () => {
    const paths = ["/a/b-0.1.0.tgz", "/with space/it's.tgz", "/$HOME/`x`.tgz"];
    const said = Bun.spawnSync(["sh", "-c", `bun() { printf '%s\\n' "$@"; }; ${installCommand(paths)}`]).stdout.toString();
    expect(said.trimEnd().split("\n")).toEqual(["add", ...paths]);
    expect(installCommand(paths.slice(0, 1))).toBe("bun add /a/b-0.1.0.tgz");
  });

  test("brings the tiny model, in at most 1 MB", () => {
    expect(packed.files).toContain("test/golden");
    expect(relative(root, tinyModel)).toStartWith("test/golden/");
    const bytes = readdirSync(tinyModel).reduce((sum, name) => sum + statSync(join(tinyModel, name)).size, 0);
    expect(bytes).toBeLessThan(1e6);
    expect(readFileSync(join(root, "packages/main-package.mjs"), "utf8")).toContain(`"${relative(join(root, "test/golden"), tinyModel)}"`);
  });

  test("is published from where the workflow runs", () => {
    expect(packed).toMatchObject({ repository, license: "MIT", engines: clone.engines, version: clone.version });
    expect(packedManifest(clone, {})).not.toHaveProperty("repository");
  });

  test("is that of a clone which npm does not publish by mistake", () => {
    expect(clone.private).toBe(true);
  });
});

describe("what Node gets", () => {
  /** A package as it is packed, with an entry that exports names in every form. */
  const project = newPath("project");
  const dist = join(project, "node_modules", "gated-delta", "dist");
  mkdirSync(dist, { recursive: true });
  const entry = `export { Device, Plan as Recorded, } from "./inner.js";\nexport * from "./inner.js";\nexport const own = 1;\nexport function call() {}\n`;
  const inner = `export class Device {}\nexport class Plan {}\nexport { Device as Other };\n`;
  const names = namesOf(entry, () => inner);
  for (const [name, text] of Object.entries({ "index.js": entry, "inner.js": inner, "index.node.js": nodeEntry("index.js", names, clone) })) writeFileSync(join(dist, name), text);
  const { exports } = packedManifest({ ...clone, exports: { ".": "./lib/index.ts" } });
  writeFileSync(join(dist, "..", "package.json"), JSON.stringify({ name: "gated-delta", type: "module", exports }));
  const says = (command: readonly string[], text: string, file = "program.mjs") => {
    writeFileSync(join(project, file), text);
    const { exitCode, stdout, stderr } = Bun.spawnSync([...command, join(project, file)], { stdout: "pipe", stderr: "pipe" });
    return { exitCode, out: `${stdout}`, errors: `${stderr}` };
  };
  const program = `import { Device, Recorded, call } from "gated-delta"; console.log(typeof Device, typeof Recorded, typeof call);`;

  test("has every name of the entry", async () => {
    expect(names).toEqual(Object.keys(await import(join(dist, "index.js"))).sort());
  });

  // A machine may have Bun alone, or a `node` that is Bun.
  const node = Bun.which("node");
  const isNode = node !== null && Bun.spawnSync([node, "-p", "process.versions.bun"]).stdout.toString().trim() === "undefined";

  test.skipIf(!isNode)("is an error that names Bun, however it is asked for", () => {
    for (const [text, file] of [[program], [`await import("gated-delta");`], [`require("gated-delta");`, "program.cjs"]] as const) {
      const { exitCode, errors } = says([node!], text, file);
      expect(exitCode).toBe(1);
      // An older Node refuses to require a module before the package can say anything.
      if (file === undefined || !errors.includes("ERR_REQUIRE_ESM")) expect(errors).toMatch(/Error: gated-delta needs Bun 1\.\d+\.\d+ or later, and this is Node\.js \d/);
    }
  });

  test("is not what Bun gets, and gives it the same where it takes Node's", () => {
    for (const more of [[], ["--conditions=node"]]) expect(says([process.execPath, ...more], program)).toEqual({ exitCode: 0, out: "function function function\n", errors: "" });
    const direct = `import { Device } from ${JSON.stringify(join(dist, "index.node.js"))}; import { Device as same } from "gated-delta"; console.log(Device === same);`;
    expect(says([process.execPath], direct).out).toBe("true\n");
  });
});

test("versions agree: manifests, lock file, changelog and library", () => {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as { version: string };
  expect(lock.version).toBe(clone.version);
  expect(readFileSync(join(root, "CHANGELOG.md"), "utf8")).toContain(`\n## [${clone.version}]`);
  expect(libraryInfo().version).toBe(clone.version);
  for (const platform of platforms) expect(platformManifest(platform, clone).version).toBe(clone.version);
});

test("the oldest TypeScript of the consumers' matrix is the one that the README names", () => {
  const { devDependencies } = JSON.parse(readFileSync(join(root, "packages/tools/package.json"), "utf8"));
  const oldest = /^npm:typescript@(\d+\.\d+)\./.exec(devDependencies["typescript-oldest"])?.[1];
  expect(/TypeScript (\d+\.\d+) or later/.exec(readFileSync(join(root, "README.md"), "utf8"))?.[1]).toBe(oldest!);
});

describe("the platforms", () => {
  test.each(platforms)("$name has a manifest with os, cpu and libc", (platform) => {
    const manifest = platformManifest(platform, clone, github);
    expect(manifest).toMatchObject({ name: `@gated-delta/${platform.name}`, os: [platform.os], cpu: [platform.cpu], repository });
    expect(`${platform.os}-${platform.cpu}`).toBe(platform.name);
    expect((manifest as { libc?: string[] }).libc).toEqual(platform.os === "linux" ? ["glibc"] : undefined);
    expect(manifest.files).toContain(platform.file);
  });

  test("are those whose packages lib/ looks for", () => {
    const text = readFileSync(join(root, "lib/native/candidates.ts"), "utf8");
    const required = [...text.matchAll(/case "([\w-]+)":\n\s+return require\("(@gated-delta\/[\w-]+)"\)/g)];
    expect(required.map(([, name]) => name)).toEqual(platforms.map(({ name }) => name));
    expect(required.map(([, , name]) => name)).toEqual(platforms.map(packageName));
  });

  test("need a Bun of the version that package.json has, or a later one", () => {
    for (const version of [Bun.version, "1.4.1", "1.4.10", "1.10.0", "2.0.0", "1.4.1-canary.3"]) expect(whyTooOld(version)).toBeUndefined();
    for (const version of ["1.4.0", "1.3.12", "0.9.9"]) expect(whyTooOld(version)).toBe(`Bun ${version} is too old: install Bun 1.4.1 or later`);
  });

  test("are supported, and others are told what is", () => {
    const debian: System = { platform: "linux", arch: "x64", glibc: [2, 36], release: "6.1.0" };
    const mac: System = { platform: "darwin", arch: "arm64", glibc: null, release: "24.0.0" };
    for (const system of [debian, { ...debian, arch: "arm64" }, { ...debian, glibc: [2, 35] as const }, { ...debian, glibc: [3, 0] as const }, mac]) {
      expect(whyUnsupported(system)).toBeUndefined();
    }
    const others: [system: System, name: RegExp][] = [
      [{ ...debian, glibc: null }, /musl/],
      [{ ...debian, glibc: [2, 34] }, /^glibc 2\.34 is not/],
      [{ ...debian, arch: "riscv64" }, /^Linux on riscv64/],
      [{ ...mac, arch: "x64" }, /^macOS on Intel/],
      [{ ...mac, release: "23.6.0" }, /^macOS before 15/],
      [{ ...mac, platform: "win32", arch: "x64" }, /^Windows/],
      [{ ...mac, platform: "freebsd" }, /^freebsd/],
    ];
    for (const [system, name] of others) {
      expect(whyUnsupported(system)).toMatch(name);
      expect(whyUnsupported(system)).toMatch(/ is not supported: supported are .*glibc 2\.35.*macOS 15/);
    }
    const [major, minor] = toolchainGlibc.split(".").map(Number) as [number, number];
    expect(whyUnsupported({ ...debian, glibc: [major, minor] })).toBeUndefined();
    expect(whyUnsupported({ ...debian, glibc: [major, minor - 1] })).toContain("glibc");
  });
});

describe("a release", () => {
  /** A folder with every package of a version, whose files are empty. */
  function release(version: string): string {
    const folder = newPath("release");
    const packed = { ...packedManifest(clone, github), version };
    const manifests: [name: string, manifest: object, file: string][] = [["gated-delta", packed, "dist/index.js"]];
    for (const platform of platforms) manifests.push([platform.name, { ...platformManifest(platform, clone, github), version }, platform.file]);
    for (const [name, manifest, file] of manifests) {
      mkdirSync(join(folder, name, "dist"), { recursive: true });
      writeFileSync(join(folder, name, "package.json"), JSON.stringify(manifest));
      writeFileSync(join(folder, name, file), "");
    }
    return folder;
  }
  test("is npm's latest unless it is a pre-release, and carries provenance where a workflow publishes it", () => {
    expect(publishFlags("1.2.3", false, {})).toEqual(["--access", "public", "--ignore-scripts", "--tag", "latest"]);
    expect(publishFlags("1.2.3-beta.1", true, { GITHUB_ACTIONS: "true" }).slice(3)).toEqual(["--tag", "next", "--dry-run"]);
    expect(publishFlags("1.2.3", false, { GITHUB_ACTIONS: "true" }).slice(3)).toEqual(["--tag", "latest", "--provenance"]);
  });

  const onTag = (name: string) => ({ GITHUB_REF_TYPE: "tag", GITHUB_REF_NAME: name });

  test("is whole, of one version, the tag's, and says where it comes from", () => {
    const folder = release(clone.version);
    expect(problemsOf(folder, clone.version, onTag(`v${clone.version}`))).toEqual([]);
    expect(problemsOf(folder, clone.version, {})).toEqual([]);
    expect(problemsOf(folder, clone.version, onTag("v9.9.9"))).toEqual([`the tag is v9.9.9, and package.json has ${clone.version}`]);
    rmSync(join(folder, "linux-x64", "libGatedDelta.so"));
    rmSync(join(folder, "darwin-arm64"), { recursive: true });
    writeFileSync(join(folder, "gated-delta", "package.json"), JSON.stringify({ name: "gated-delta", version: "0.0.1", private: true }));
    const problems = problemsOf(folder, clone.version, {});
    expect(problems.map((line: string) => line.replace(/\/\S+/g, "FOLDER"))).toEqual([
      "@gated-deltaFOLDER has no libGatedDelta.so",
      "@gated-deltaFOLDER is missing in FOLDER",
      `gated-delta is 0.0.1, and package.json has ${clone.version}`,
      "gated-delta is private",
      expect.stringMatching(/^gated-delta names no repository/),
    ]);
    expect(problemsOf(release("9.0.0"), clone.version, {})).toHaveLength(platforms.length + 1);
  });
});

describe("bytes of a linked library", () => {
  test("by their origin, from the linker's map", () => {
    const map = [
      "             VMA              LMA     Size Align Out     In      Symbol",
      "             100              100       10     4 .text",
      "             100              100       10     4         /a/CPUKernels.build/isa_avx2.c.o:(.text.f)",
      "             110              110        a     4                 f",
      "             110              110       20     4         /a/CPUKernels.build/items.c.o:(.rodata)",
      "             130              130       40     4         /b/libswiftCore.a(Swift.o):(.text.$s1a)",
      "             170              170        8     4         <internal>:(.rela.dyn)",
      "               0                0     1000     4         /b/libswiftCore.a(Swift.o):(.debug_info)",
      "             200              200     2000     4         /b/libswiftCore.a(Swift.o):(.bss.x)",
    ].join("\n");
    expect(bytesByOrigin(map)).toEqual([
      { name: "libswiftCore.a", bytes: 0x40 },
      { name: "CPUKernels", bytes: 0x20 },
      { name: "CPUKernels, avx2", bytes: 0x10 },
      { name: "relocations and merged strings", bytes: 8 },
    ]);
  });

  test("asks Swift for no character's name: the published library has none", () => {
    const files = [...new Bun.Glob("swift/Sources/**/*.swift").scanSync(root)];
    expect(files.length).toBeGreaterThan(50);
    const users = files.filter((file) => /\bproperties\b|\bnameAlias\b/.test(readFileSync(join(root, file), "utf8")));
    expect(users).toEqual([]);
  });

  test("versions of glibc compare as numbers", () => {
    expect(newestGlibc(["GLIBC_2.4", "GLIBC_2.35", "GLIBC_2.9", "GCC_3.0", "GLIBC_PRIVATE"])).toEqual([2, 35]);
    expect(newestGlibc(["GCC_3.0"])).toBeNull();
  });

  test("what is no ELF file is refused", () => {
    expect(() => demandsOf(Buffer.from("#!/bin/sh\n".repeat(10)))).toThrow("ELF");
    expect(() => releaseSections(Buffer.from("#!/bin/sh\n".repeat(10)))).toThrow("archive");
  });
});

if (process.platform === "linux") {
  describe("an ELF file", () => {
    const compiler = (process.env["GATED_DELTA_CLANG"] ?? "cc").replace(/\+\+$/, ""); // the driver for C
    /** Sections that hold one variable each, two of them marked to be kept. */
    const source = newPath("kept.c");
    writeFileSync(source, '__asm__(".section swift5_records,\\"aR\\",@progbits; .byte 1; .section plain,\\"aR\\",@progbits; .byte 2; .section free,\\"a\\",@progbits; .byte 3; .text");\nint used;\n');
    const object = newPath("kept.o");
    const built = Bun.spawnSync([compiler, "-x", "c", "-c", source, "-o", object]);
    if (!built.success) throw new Error(`${compiler}: ${built.stderr}`);

    test("of an archive loses the marks that keep its sections, those of Swift's records apart", () => {
      const member = readFileSync(object);
      const field = (text: string, width: number) => text.padEnd(width);
      const header = `${field("kept.o/", 16)}${field("0", 12)}${field("0", 6)}${field("0", 6)}${field("644", 8)}${field(`${member.length}`, 10)}\`\n`;
      const archive = Buffer.concat([Buffer.from("!<arch>\n"), Buffer.from(header), member, Buffer.alloc(member.length % 2)]);
      const before = Buffer.from(archive);
      expect(releaseSections(archive)).toBe(1);
      const changed = [...archive.keys()].filter((i) => archive[i] !== before[i]);
      expect(changed).toHaveLength(1); // one byte of one section's flags
      expect(before[changed[0]!]! - archive[changed[0]!]!).toBe(0x20);
      expect(releaseSections(archive)).toBe(0);
    });

    test("tells what it asks for", () => {
      const { needed, versions } = demandsOf(readFileSync(libraryInfo().path));
      expect(needed).toContain("libc.so.6");
      expect(versions).toContain(process.arch === "x64" ? "GLIBC_2.2.5" : "GLIBC_2.17");
      expect(newestGlibc(versions)![0]).toBe(2);
      const sections = loadedSections(readFileSync(libraryInfo().path));
      expect(sections[0]!.name).toBe(".text");
    });
  });
}

// Linked as by `npm run pack`; a library that came from elsewhere leaves no objects here.
const linkable = process.platform === "linux" && existsSync(join(root, ".build/release/GatedDelta.product/Objects.LinkFileList"));
describe.skipIf(!linkable)("the library that is published", () => {
  const folder = newPath("published");
  const published = join(folder, "a", "b", "libGatedDelta.so");
  const compiler = (process.env["GATED_DELTA_CLANG"] ?? "cc").replace(/\+\+$/, ""); // the driver for C

  beforeAll(async () => {
    mkdirSync(join(folder, "a", "b"), { recursive: true });
    await linkLibrary({ root, toolchain: await findSwift(lastToolchain(root)), cross: undefined }, join(folder, "link"), published);
  }, 120_000);

  test("has the header's functions but those for tests, and no trace of these", () => {
    const names = exportsOf(published);
    expect(names).toEqual(exportsOf(join(root, ".build/release/libGatedDelta.so")).filter((name) => !name.startsWith("gd_test_")));
    expect(names).toContain("gd_commit");
    expect(tracesOfTests(readFileSync(published))).toEqual([]);
    expect(tracesOfTests(readFileSync(join(root, ".build/release/libGatedDelta.so")))).toContain("gd_test_");
  });

  test("runs no kernels for Metal that lie near it or are named to it", () => {
    const source = newPath("planted.c");
    const planted = join(folder, "emulator", "libGatedDeltaShaders.so");
    for (const place of ["emulator", "a/emulator"]) mkdirSync(join(folder, place));
    writeFileSync(source, '#include <stdio.h>\n__attribute__((constructor)) static void planted(void) { puts("PLANTED"); fflush(stdout); }\n');
    const built = Bun.spawnSync([compiler, "-shared", "-fPIC", source, "-o", planted]);
    if (!built.success) throw new Error(`${compiler}: ${built.stderr}`);
    writeFileSync(join(folder, "a/emulator/libGatedDeltaShaders.so"), readFileSync(planted));
    const program = `import { Device } from ${JSON.stringify(join(root, "lib/index.ts"))};
      for (const name of ["cpu", "metal"]) try { using device = Device.open(name); console.log(device.backend); } catch (error) { console.log(error.code); }`;
    const run = (library: string) => {
      const env = { ...process.env, GATED_DELTA_LIBRARY: library, GATED_DELTA_METAL_EMULATOR: planted };
      return `${Bun.spawnSync([process.execPath, "-e", program], { env }).stdout}`;
    };
    expect(run(published)).toBe("cpu\ndevice\n");
    expect(run(join(root, ".build/release/libGatedDelta.so"))).toBe("cpu\nPLANTED\ndevice\n"); // the build of a clone loads the named library
  });
});

test("bars of progress", () => {
  expect(bar(0, 8)).toBe(`[${".".repeat(24)}]`);
  expect(bar(3, 8)).toBe(`[${"#".repeat(9)}${".".repeat(15)}]`);
  expect(bar(9, 8)).toBe(`[${"#".repeat(24)}]`);
  const moving = Array.from({ length: 80 }, (_, i) => bar(0, 0, i));
  for (const [i, text] of moving.entries()) {
    expect(text).toMatch(/^\[\.*####\.*\]$/);
    expect(text).toHaveLength(26);
    if (i > 0) expect(Math.abs(text.indexOf("#") - moving[i - 1]!.indexOf("#"))).toBe(1);
  }
});
