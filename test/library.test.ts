/** Finding and loading the native library, each time in a process of its own. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { libraryInfo } from "../lib/index.ts";
import { libraryCandidates, packageRoot } from "../lib/native/candidates.ts";
import { scratch } from "./support/files.ts";

const { newPath } = scratch();
const entry = JSON.stringify(join(import.meta.dir, "../lib/index.ts"));

/** Runs a script with an environment; returns what it prints and its exit code. */
async function script(
  code: string,
  env: Record<string, string | undefined> = {},
): Promise<{ out: string; code: number }> {
  const child = Bun.spawn([process.execPath, "-e", code], {
    env: { ...process.env, ...env } as Record<string, string>,
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, error, exit] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { out: out + error, code: exit };
}

/** Opens a device and prints the error as JSON. */
const opening = `
  const { Device, GatedDeltaError, LibraryError } = await import(${entry});
  try { Device.open(); console.log("opened"); }
  catch (error) { console.log(JSON.stringify([error instanceof LibraryError, error.code, error.message])); }
`;

describe("the native library", () => {
  test("says where it came from", () => {
    const info = libraryInfo();
    expect(["environment", "platform-package", "embedded", "build"]).toContain(info.source);
    expect(info.path).toMatch(/\.(so|dylib)$/);
    expect(info.version).toMatch(/^\d+\.\d+\.\d+/);
  });

  test("is looked for in the environment, the platform's package and the clone's build", async () => {
    const sources = libraryCandidates().map(({ source }) => source);
    if (process.env["GATED_DELTA_LIBRARY"]) expect(sources).toEqual(["environment"]);
    else expect(sources).toEqual(["platform-package", "build"]);
    const { out } = await script(opening, { GATED_DELTA_LIBRARY: libraryInfo().path });
    expect(out).toBe("opened\n");
  });

  test("is loaded on first use, not by importing", async () => {
    const { out, code } = await script(`await import(${entry}); console.log("imported")`, {
      GATED_DELTA_LIBRARY: "/nowhere/lib.so",
    });
    expect([out, code]).toEqual(["imported\n", 0]);
  });

  test("starting up does not wait for zod, which only options need", async () => {
    const { out } = await script(
      `const { Device, StatePool, linear } = await import(${entry});
       const loaded = () => Object.keys(require.cache).some((path) => path.includes("zod"));
       const device = Device.open();
       device.run(linear({ x: device.tensor("f32", [1, 8]), weight: device.tensor("f32", [8, 8]), out: device.tensor("f32", [1, 8]) }));
       device.wait();
       console.log(loaded());
       StatePool.create(device, { slots: 1, layers: 1, keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8, convWidth: 4 });
       console.log(loaded());`,
      { GATED_DELTA_LIBRARY: libraryInfo().path },
    );
    expect(out).toBe("false\ntrue\n");
  });

  test("an explicit choice that fails is an error that says so, not a fallback", async () => {
    const text = newPath("text.so");
    await Bun.write(text, "this is no library");
    for (const [path, why] of [
      ["/nowhere/lib.so", "no such file"],
      [text, text],
    ] as const) {
      const { out } = await script(opening, { GATED_DELTA_LIBRARY: path });
      const [isLibraryError, code, message] = JSON.parse(out) as [boolean, string, string];
      expect([isLibraryError, code]).toEqual([true, "library"]);
      expect(message).toContain(path);
      expect(message).toContain(why);
      expect(message).toContain("unset it to use the one that comes with the package");
      expect(message).not.toContain(join(packageRoot, ".build"));
    }
  });

  test("a library that is another one is refused", async () => {
    // Any library that is certain to exist will do, such as the C library.
    const libc = process.platform === "darwin" ? "/usr/lib/libSystem.B.dylib" : "libc.so.6";
    const copy = process.platform === "darwin" ? libc : newPath("libother.so");
    if (copy !== libc) {
      const loaded = (await Bun.file("/proc/self/maps").text()).split("\n").find((line) => line.endsWith(libc))!;
      await Bun.write(copy, Bun.file(loaded.slice(loaded.indexOf("/"))));
    }
    const { out } = await script(opening, { GATED_DELTA_LIBRARY: copy });
    expect((JSON.parse(out) as unknown[]).slice(0, 2)).toEqual([true, "library"]);
  });

  test("can be retried after a failure", async () => {
    const { out } = await script(
      `const { Device } = await import(${entry});
       try { Device.open(); } catch (error) { console.log(error.code); }
       process.env.GATED_DELTA_LIBRARY = ${JSON.stringify(libraryInfo().path)};
       Device.open().close();
       console.log("opened");`,
      { GATED_DELTA_LIBRARY: "/nowhere/lib.so" },
    );
    expect(out).toBe("library\nopened\n");
  });
});
