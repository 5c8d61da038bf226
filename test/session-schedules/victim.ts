/**
 * A process that is to be killed: it runs schedules of a model and keeps sessions on disk, over and over.
 * `bun test/session-schedules/victim.ts FORM MODEL FOLDER SEED BACKEND PRODUCTS`
 */
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { openFixture } from "./fixtures.ts";
import { Keeper } from "./kept.ts";
import type { Products } from "../support/roles.ts";
import { Random } from "../support/random.ts";
import { Counts } from "../support/schedules.ts";
import { Schedule } from "./schedule.ts";

const [form, path, folder, seed, backend, products] = process.argv.slice(2) as [string, string, string, string, string, Products];
const device = Device.open({ backend: backend as BackendName, threads: 1 });
const fixture = await openFixture(device, form, path, products);
const keeper = new Keeper(folder);
const random = new Random(Number(seed));
for (;;) {
  await using schedule = new Schedule(fixture, random, new Counts(), folder, keeper);
  try {
    await schedule.run();
    await schedule.end();
  } catch (error) {
    process.stderr.write(`${schedule.lines.map((line) => `  ${line}\n`).join("")}`);
    throw error;
  }
}
