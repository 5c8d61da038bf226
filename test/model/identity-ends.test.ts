/** The identity's work in the background: other work continues, and models and devices can end at once in the meantime. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { libraryInfo } from "../../lib/index.ts";
import { nextTurn } from "../../lib/turns.ts";
import { LanguageModel } from "../../lib/model.ts";
import { runBun, runProgram } from "../support/children.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { identityByHand } from "../support/identities.ts";
import { rejection, textOf, tinyFolder } from "../support/models.ts";

const device = openDevice(2);
const files = scratch();
const kept = process.env["GATED_DELTA_CACHE"];
// A cached identity is not computed.
beforeAll(() => void (process.env["GATED_DELTA_CACHE"] = files.newPath("cache")));
afterAll(() => {
  device.close();
  if (kept === undefined) delete process.env["GATED_DELTA_CACHE"];
  else process.env["GATED_DELTA_CACHE"] = kept;
});

/** Its embedding takes 40 MB. */
const large = () => tinyFolder({ tied: true, vocabulary: 250_007 });
const options = { states: 2, pages: { count: 8, tokens: 8 } };
const load = () => LanguageModel.load(device, large(), options);

/** Uses a new cache folder, in which no file is known. */
function forget(): void {
  process.env["GATED_DELTA_CACHE"] = files.newPath("cache");
}

describe("while the identity is computed", () => {
  test("the event loop turns, and no byte of a weight is hashed in this thread", async () => {
    forget();
    using model = await load();
    let turns = 0;
    let over = false;
    let hashed = 0;
    const { createHash } = await import("node:crypto");
    const prototype = Object.getPrototypeOf(createHash("sha256")) as { update: (data: string | Uint8Array) => unknown };
    const update = prototype.update;
    prototype.update = function (data) {
      hashed += data.length;
      return update.call(this, data);
    };
    try {
      const computed = model.identity().finally(() => (over = true));
      while (!over) {
        await nextTurn();
        turns++;
      }
      expect(await computed).toHaveLength(64);
    } finally {
      prototype.update = update;
    }
    // 40 MB in pieces of one MiB, each of which takes several turns: hundreds in all.
    expect(turns).toBeGreaterThan(20);
    expect(hashed).toBeGreaterThan(1000); // digests and names
    expect(hashed).toBeLessThan(100_000);
  });

  test("sessions go on", async () => {
    forget();
    using model = await load();
    using session = model.session().append(textOf(1, 9));
    const computed = model.identity();
    await session.logits();
    expect(await computed).toBe(identityByHand(large(), model.config));
  });

  test("all who ask get the same, and one that no longer waits leaves the others", async () => {
    forget();
    using model = await load();
    const controller = new AbortController();
    const left = model.identity({ signal: controller.signal }).catch((error: unknown) => error);
    const others = [model.identity(), model.identity({ signal: new AbortController().signal })];
    controller.abort(new Error("enough"));
    expect(await left).toEqual(new Error("enough"));
    const [one, other] = await Promise.all(others);
    expect(one).toBe(other!);
    expect(await model.identity({ signal: AbortSignal.timeout(1e6) })).toBe(one!);
    expect(await model.identity({ signal: controller.signal }).catch((error: unknown) => error)).toEqual(new Error("enough"));
  });

  test("the last one that leaves ends the work; it begins again for the next", async () => {
    forget();
    using model = await load();
    const controller = new AbortController();
    const waits = [1, 2].map(() => model.identity({ signal: controller.signal }).catch((error: unknown) => error));
    await nextTurn();
    controller.abort("enough");
    expect(await Promise.all(waits)).toEqual(["enough", "enough"]);
    expect(await model.identity()).toBe(identityByHand(large(), model.config));
  });

  test("a model that is disposed rejects, and one that was", async () => {
    forget();
    const model = await load();
    const session = model.session().append(textOf(1, 3));
    const path = files.newPath("session");
    const waits = [model.identity(), session.save(path)];
    await nextTurn();
    model[Symbol.dispose]();
    const errors = await Promise.all(waits.map(rejection));
    expect(errors.map(({ code, op }) => [code, op])).toEqual([["disposed", "model.identity"], ["disposed", "session.save"]]);
    expect((await rejection(model.identity())).code).toBe("disposed");
  });

  test("wrong options are refused", async () => {
    using model = await load();
    for (const wrong of [{ signal: 5 }, { timeout: 1 }, null, 3]) {
      const error = await rejection(model.identity(wrong as never));
      expect([error.code, error.op]).toEqual(["invalid-argument", "model.identity"]);
    }
  });
});

/** A program that begins with a model; ROOT stands for the package's folder. */
const program = (rest: string) => `
  import { Device } from "ROOTlib/index.ts";
  import { LanguageModel, Session } from "ROOTlib/model.ts";
  const device = Device.open("cpu");
  const model = await LanguageModel.load(device, ${JSON.stringify(large())}, { states: 1, pages: { count: 4, tokens: 8 } });
  ${rest}
`;
const child = (rest: string) => runProgram({ GATED_DELTA_CACHE: files.newPath("cache") }, program(rest));

describe("a process", () => {
  test("that does nothing but save a session stays until that is done", () => {
    const path = files.newPath("session");
    const { ok, text } = child(`
      model.session().append([1, 2, 3]).save(${JSON.stringify(path)}).then(() => console.log("saved"));
    `);
    expect([ok, text]).toEqual([true, "saved\n"]);
  });

  test("that exits meanwhile does so at once", () => {
    const { text } = child(`
      model.identity().then(() => console.log("computed"));
      setImmediate(() => { console.log("exits"); process.exit(0); });
      process.on("exit", () => console.log("exit"));
    `);
    expect(text).toBe("exits\nexit\n");
  });

  test("whose Worker has the model, and is terminated meanwhile, goes on", () => {
    const worker = files.newPath("worker.ts");
    const root = JSON.stringify(join(import.meta.dir, "../..", "/")).slice(1, -1);
    writeFileSync(worker, program("postMessage(1); await model.identity(); postMessage(2);").replaceAll("ROOT", root));
    const { ok, text } = child(`
      const said = [];
      const worker = new Worker(${JSON.stringify(worker)});
      await new Promise((resolve) => (worker.onmessage = ({ data }) => (said.push(data), resolve())));
      const closed = new Promise((resolve) => worker.addEventListener("close", resolve));
      worker.terminate();
      await closed;
      console.log(said.join(), (await model.identity()).length);
    `);
    expect([ok, text]).toEqual([true, "1 64\n"]);
  });
});

test.each([["as it is", []], ["minified", ["--minify"]]] as const)("a compiled program computes it too, %s", (_, how) => {
  const [source, compiled] = [files.newPath("program.ts"), files.newPath("program")];
  const root = JSON.stringify(join(import.meta.dir, "../..", "/")).slice(1, -1);
  writeFileSync(source, program(`
    const path = process.argv[2];
    await model.session().append([1, 2, 3]).save(path);
    console.log((await Session.load(model, path)).length, await model.identity());
  `).replaceAll("ROOT", root));
  const built = runBun({}, "build", "--compile", "--external", "@gated-delta/*", ...how, source, "--outfile", compiled);
  expect(built.ok ? "" : built.text).toBe("");
  const env = { ...process.env, GATED_DELTA_LIBRARY: libraryInfo().path, GATED_DELTA_CACHE: files.newPath("cache") };
  const { stdout, stderr } = Bun.spawnSync([compiled, files.newPath("session")], { cwd: files.folder, env, stdout: "pipe", stderr: "pipe" });
  expect([`${stderr}`, /^3 [0-9a-f]{64}\n$/.test(`${stdout}`)]).toEqual(["", true]);
}, 60_000);
