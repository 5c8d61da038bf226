/**
 * Killed saves: the file is always the old one or the new one, and loads. `GATED_DELTA_TEST_LONG=1` kills 200
 * of them instead of 40.
 */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { Random } from "./support/random.ts";
import { statesOn } from "./support/states.ts";

const device = openDevice();
const { newPool } = statesOn(device);
const files = scratch();
const shape = { keyDim: 64, valueDim: 64 } as const;

/** Saves states filled with one number after another, 1, 2, 3, …, until it is killed; prints each number once it is saved. */
const saver = `
import { Device, StatePool } from ${JSON.stringify(join(import.meta.dir, "../lib/index.ts"))};
const [path, first] = process.argv.slice(-2);
const device = Device.open("cpu");
const pool = StatePool.create(device, { slots: 1, layers: 2, keyHeads: 1, valueHeads: 2, keyDim: 64, valueDim: 64, convWidth: 4 });
const handle = pool.allocate();
const step = pool.step([handle]);
for (let layer = 0; layer < 2; layer++) for (const kind of ["state", "conv"]) step.wrote(layer, kind);
step.done();
for (let n = Number(first); ; n++) {
  for (let layer = 0; layer < 2; layer++) for (const tensor of [pool.state(layer), pool.conv(layer)]) tensor.data.fill(n);
  pool.save([handle], path);
  process.stdout.write(n + "\\n");
}
`;

const killed = process.env["GATED_DELTA_TEST_LONG"] === "1" ? 200 : 40;

test(`${killed} saves, each killed at a random moment`, async () => {
  const path = files.newPath("states");
  const script = files.newPath("saver.ts");
  await Bun.write(script, saver);
  const random = new Random(5);
  using pool = newPool(1, shape);
  let saved = 0;
  let kills = 0;
  for (let started = 0; kills < killed; started++) {
    // One process at a time saves, and is killed while it does so: several would write the same file.
    const child = Bun.spawn([process.execPath, script, path, String(saved + 1)], { stdout: "pipe", stderr: "inherit" });
    const reader = child.stdout.getReader();
    let text = "";
    const targets = saved + 1 + random.below(3);
    while (!text.includes(`${targets}\n`)) {
      const { value, done } = await reader.read();
      if (done) break;
      text += new TextDecoder().decode(value);
    }
    await Bun.sleep(random.uniform(0, 4));
    child.kill("SIGKILL");
    await child.exited;
    kills++;
    const known = Number(text.trim().split("\n").at(-1));
    expect(known).toBeGreaterThanOrEqual(targets);
    const [handle] = pool.load(path);
    const numbers = new Set([0, 1].flatMap((layer) => [pool.state(layer), pool.conv(layer)].flatMap(({ data }) => [...new Set(data)])));
    expect(numbers.size).toBe(1); // all from one save
    const [number] = numbers;
    expect(number).toBeGreaterThanOrEqual(known);
    saved = number!;
    handle!.free();
    if (started === 0) expect(saved).toBeGreaterThan(0);
  }
  const leftovers = readdirSync(dirname(path)).filter((name) => name.startsWith(`.${basename(path)}.`));
  expect(leftovers.length).toBeLessThanOrEqual(1); // that of the last writer; the next one would remove it
}, 180_000);
