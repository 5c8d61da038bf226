/**
 * A store in a whole S3 server: PyPI's moto, in a virtual environment in a temporary folder, with packages from pip's cache or
 * downloaded ones. `GATED_DELTA_MOTO=PROGRAM` names an installed `moto_server` instead.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Device } from "../../../lib/index.ts";
import { openStore } from "../../../lib/server.ts";
import { pieceBytes } from "../../../lib/server/store/session-store.ts";
import { killServers } from "../../support/killed-servers.ts";
import { installed } from "../../support/python.ts";
import { freePort, s3Environment } from "../../support/store-servers.ts";

/** Moto's version. */
const version = "5.2.5";

export async function run(say: (line: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-s3-"));
  try {
    const program = process.env["GATED_DELTA_MOTO"] ?? (await installed(folder, `moto[s3,server]==${version}`, "moto_server", say));
    const port = freePort();
    const child = Bun.spawn([program, "-H", "127.0.0.1", "-p", `${port}`], { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    try {
      Object.assign(process.env, s3Environment(port));
      const bucket = new URL("/sessions", `http://127.0.0.1:${port}`);
      for (let tries = 0; !(await fetch(bucket, { method: "PUT" }).then(({ ok }) => ok, () => false)); tries++) {
        if (tries === 150) throw new Error("moto's server did not begin within 30 s");
        await Bun.sleep(200);
      }
      await large(say);
      using device = Device.open("cpu");
      const { answers, killed, promptTokens, cachedTokens, wrong } = await killServers({ device, handlers: 16, processes: 4, seed: 3, folder, place: "s3://sessions/servers" });
      say(`${killed} servers killed; ${answers} whole answers, ${wrong.length} of them not those of a server without a store; ${promptTokens} tokens of prompts, ${cachedTokens} of them not read again`);
      if (wrong.length > 0) throw new Error(wrong.slice(0, 3).join("\n"));
    } finally {
      child.kill();
      await child.exited;
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** An object in parts and ranges, and missing ones. */
async function large(say: (line: string) => void): Promise<void> {
  const store = openStore("s3://sessions/large");
  const bytes = new Uint8Array(5 * pieceBytes + 17).map((_, i) => i * 31 + (i >> 12));
  await store.write("entries/large", bytes);
  const read = new Uint8Array(bytes.length);
  const there = await store.read("entries/large", read);
  const longer = await store.read("entries/large", new Uint8Array(bytes.length - 1));
  const missing = await store.read("entries/none", new Uint8Array(10));
  await store.add("lengths/a", "12");
  const has = await store.has([{ name: "entries/large", bytes: bytes.length }, { name: "entries/none", bytes: 10 }]);
  const members = await store.members(["lengths/a", "lengths/b"]);
  await store.remove({ name: "entries/large", bytes: bytes.length });
  const after = await store.read("entries/large", read);
  const found = JSON.stringify([there, longer, missing, has, members, after, Buffer.compare(read, bytes)]);
  const expected = JSON.stringify([true, false, false, [true, false], [["12"], []], false, 0]);
  if (found !== expected) throw new Error(`expected ${expected}, got ${found}`);
  say(`an object of ${bytes.length} bytes: written in parts, read in ranges, removed`);
}
