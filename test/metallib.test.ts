/** The Metal kernels in a published library for macOS, with a stand-in for Apple's tools: their compilation and their place. */
import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { makeMetallib, metalFlags } from "../packages/metallib.mjs";
import { holdsMetallib, mostBytes } from "../packages/platform-package.mjs";
import { scratch } from "./support/files.ts";

const root = join(import.meta.dir, "..");
const { newPath } = scratch();
const shaders = readdirSync(join(root, "shaders")).filter((name) => name.endsWith(".metal")).sort();

/** An `xcrun` that records its calls in a file, and writes the tools' output; it fails if `refuse` is among the arguments. */
function standIn(refuse = "nothing"): { env: Record<string, string>; calls: () => string[][] } {
  const folder = newPath("tools");
  mkdirSync(folder, { recursive: true });
  const log = join(folder, "calls");
  const script = `#!/bin/sh
printf '%s\\t' "$@" >> '${log}'; printf '\\n' >> '${log}'
case " $* " in *' shaders/${refuse} '*) echo 'error: no matching function'; exit 1;; esac
tool=$3; out=; last=
for word in "$@"; do [ "$last" = -o ] && out=$word; last=$word; done
if [ "$tool" = metallib ]; then printf MTLB > "$out"; for word in "$@"; do case $word in *.air) cat "$word" >> "$out";; esac; done
else printf '%s;' "$(basename "$last")" > "$out"; fi
`;
  writeFileSync(join(folder, "xcrun"), script);
  chmodSync(join(folder, "xcrun"), 0o755);
  const calls = () => readFileSync(log, "utf8").trimEnd().split("\n").map((line) => line.split("\t").slice(0, -1));
  return { env: { ...process.env, PATH: `${folder}:${process.env["PATH"]}` } as Record<string, string>, calls };
}

describe("the compiled kernels", () => {
  test("are those of every shader file, in one library", async () => {
    const { env, calls } = standIn();
    const output = join(newPath("out"), "gated-delta.metallib");
    expect(await makeMetallib(root, output, { more: ["-Werror"], env })).toBe(output);
    expect(readFileSync(output, "utf8")).toBe(`MTLB${shaders.map((name) => `${name};`).join("")}`);
    const made = calls();
    expect(made.length).toBe(shaders.length + 1);
    for (const [i, name] of shaders.entries()) {
      expect(made[i]).toEqual(["-sdk", "macosx", "metal", ...metalFlags, "-Werror", "-o", join(`${output}.objects`, `${basename(name, ".metal")}.air`), "-c", `shaders/${name}`]);
    }
  });

  test("are compiled as the text is at run time", () => {
    const source = readFileSync(join(root, "swift/Sources/MetalBackend/Pipelines.swift"), "utf8");
    expect(/languageVersion = \.version(\d)_(\d)/.exec(source)!.slice(1)).toEqual(["3", "2"]);
    expect(metalFlags).toContain("-std=metal3.2");
    for (const [option, flag] of [["mathMode", "-fmetal-math-mode"], ["mathFloatingPointFunctions", "-fmetal-math-fp32-functions"]] as const) {
      expect(metalFlags).toContain(`${flag}=${new RegExp(`options\\.${option} = \\.(\\w+)`).exec(source)![1]}`);
    }
    expect(metalFlags).toContain(`-mmacosx-version-min=${/macOS\(\.v(\d+)\)/.exec(readFileSync(join(root, "Package.swift"), "utf8"))![1]}.0`);
  });

  test("a file that does not compile is named, with the compiler's words", async () => {
    const { env } = standIn("norm.metal");
    const output = join(newPath("out"), "a.metallib");
    const error = await makeMetallib(root, output, { env }).then(() => undefined, (reason: Error) => reason);
    expect(error?.message).toMatch(/^xcrun metal failed on shaders\/norm\.metal:\n.*error: no matching function$/);
    expect(existsSync(output)).toBe(false);
  });

  test("are in the section where the library looks for them", () => {
    const [segment, section] = /getsectiondata\(header, "(\w+)", "(\w+)"/.exec(readFileSync(join(root, "swift/Sources/MetalBackend/Platform.swift"), "utf8"))!.slice(1);
    expect(readFileSync(join(root, "Package.swift"), "utf8")).toContain(`["-sectcreate", "${segment}", "${section}", path]`);
    expect(readFileSync(join(root, "packages/link.mjs"), "utf8")).toContain("GATED_DELTA_METALLIB: metallib");
    expect(readFileSync(join(root, "Package.swift"), "utf8")).toContain('Context.environment["GATED_DELTA_METALLIB"]');
  });

  test("are asked for in a published library, which may be 8 MB larger for them", () => {
    expect([Buffer.from("..MTLB.."), Buffer.from("..")].map((bytes) => holdsMetallib(bytes))).toEqual([true, false]);
    expect(mostBytes.darwin - mostBytes.linux).toBe(8e6);
  });
});
