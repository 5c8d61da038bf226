// The lock of set-up, from several processes: one at a time, and a killed holder does not keep it.
import { expect, test } from "bun:test";
import { readFileSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { withLock } from "../../swift/scripts/lock.mjs";
import { temporaryFolder } from "./folder.ts";

const module = join(import.meta.dir, "../../swift/scripts/lock.mjs");

function start(source: string): Bun.Subprocess<"ignore", "pipe", "ignore"> {
  const text = `import { withLock } from ${JSON.stringify(module)}; import fs from "node:fs"; ${source}`;
  return Bun.spawn([process.execPath, "-e", text], { stdin: "ignore", stdout: "pipe", stderr: "ignore" });
}

test("holders never overlap", async () => {
  using place = temporaryFolder();
  const log = join(place.path, "log");
  const lock = JSON.stringify(join(place.path, "lock"));
  const source = `
    const log = ${JSON.stringify(log)};
    for (let i = 0; i < 5; i++) {
      await withLock(${lock}, "test", async () => {
        fs.appendFileSync(log, "in " + process.pid + "\\n");
        await new Promise((resolve) => setTimeout(resolve, 2));
        fs.appendFileSync(log, "out " + process.pid + "\\n");
      });
    }`;
  const all = [1, 2, 3, 4].map(() => start(source));
  for (const child of all) expect(await child.exited).toBe(0);
  const lines = readFileSync(log, "utf8").trim().split("\n");
  expect(lines.length).toBe(40);
  for (let i = 0; i < lines.length; i += 2) {
    expect(lines[i + 1]).toBe(lines[i]?.replace("in", "out") ?? "");
  }
});

test("a holder that is killed is passed over at once", async () => {
  using place = temporaryFolder();
  const lock = join(place.path, "lock");
  const child = start(`await withLock(${JSON.stringify(lock)}, "test", async () => { console.log("in"); await new Promise((resolve) => setTimeout(resolve, 600_000)); });`);
  const { value } = await child.stdout.getReader().read();
  expect(new TextDecoder().decode(value)).toBe("in\n");
  child.kill("SIGKILL");
  await child.exited;
  expect(await withLock(lock, "test", async () => 7)).toBe(7);
});

test("a holder elsewhere counts as gone when it has long been silent", async () => {
  using place = temporaryFolder();
  const lock = join(place.path, "lock");
  await withLock(lock, "test", async () => {});
  const [last] = readdirSync(lock);
  const file = join(lock, String(Number(last) + 1));
  writeFileSync(file, JSON.stringify({ pid: 1, birth: "1", neighbourhood: "another machine" }));
  const longAgo = new Date(Date.now() - 3_600_000);
  utimesSync(file, longAgo, longAgo);
  expect(await withLock(lock, "test", async () => "mine")).toBe("mine");
});

test("the work's result and its failure come through, and the lock is free after either", async () => {
  using place = temporaryFolder();
  await expect(withLock(place.path, "test", async () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(await withLock(place.path, "test", async () => 1)).toBe(1);
  expect(readdirSync(place.path).length).toBe(1);
});
