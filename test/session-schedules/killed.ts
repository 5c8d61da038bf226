/** Has a process run schedules, kills it, and returns the files that it has left. */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import type { Random } from "../support/random.ts";
import type { Fixture } from "./fixtures.ts";
import { hasBegun, keptIn } from "./kept.ts";
import type { Kept } from "./kept.ts";

/** The longest that a process may live after it has begun to save, in milliseconds. */
const longestLife = 250;

/** @throws if the process ends by itself, with its output. */
export async function killedSessions(fixture: Fixture, random: Random, folder: string): Promise<Kept[]> {
  const own = mkdtempSync(join(folder, "killed-"));
  const { backend } = fixture.model.device;
  const seed = random.below(2 ** 31);
  const life = random.uniform(0, longestLife);
  const script = join(import.meta.dir, "victim.ts");
  const child = Bun.spawn([process.execPath, script, fixture.name, fixture.path, own, `${seed}`, backend, fixture.products], { stdout: "ignore", stderr: "pipe" });
  const text = child.stderr.text();
  while (!hasBegun(own) && child.exitCode === null) await Bun.sleep(2);
  await Bun.sleep(life);
  child.kill("SIGKILL");
  await child.exited;
  if (child.signalCode !== "SIGKILL") throw new Error(`a process of seed ${seed} ended by itself:\n${await text}`);
  return keptIn(own);
}
