import { expect, test } from "bun:test";
import { Device, DisposedError, StatePool } from "../lib/index.ts";
import type { Pass } from "../lib/index.ts";
import { onEachBackend } from "./support/backends.ts";
import { counting, diagonal } from "./support/devices.ts";

onEachBackend("preparing", ({ name, device }) => {
  const x = counting(device, "f32", [2, 8]);
  const weight = diagonal(device, "f32", 8, 2);
  const out = device.tensor("f32", [2, 8]);
  const project = (pass: Pass) => pass.linear({ x, weight, out });
  const refused = (build: unknown) =>
    device.prepare(build as never).then(
      () => undefined,
      (error: unknown) => error as { code: string; op: string },
    );

  test("nothing runs, and what was prepared runs afterwards", async () => {
    const ticket = device.lastTicket;
    out.data.fill(7);
    expect(await device.prepare(project)).toBeUndefined();
    device.wait();
    expect([device.lastTicket, ...out.data.slice(0, 3)]).toEqual([ticket, 7, 7, 7]);
    expect(device.run(project)).toBe(ticket + 1);
    await device.finish();
    expect([...out.data.slice(0, 3)]).toEqual([0, 2, 4]);
    await device.prepare(() => {});
  });

  test("what was encoded stays encoded, and the device works on meanwhile", async () => {
    const ticket = device.lastTicket;
    out.data.fill(0);
    device.run((pass) => project(pass));
    const preparing = [device.prepare(project), device.prepare(project)];
    device.wait();
    expect([device.lastTicket, out.data[1]]).toEqual([ticket + 1, 2]);
    await Promise.all(preparing);
  });

  test("states are a placeholder's", async () => {
    using pool = StatePool.create(device, { slots: 2, layers: 1, keyHeads: 1, valueHeads: 1, valueDim: 8, keyDim: 8, conv: false });
    const rows = () => device.tensor("f32", [2, 1, 8]);
    const scalars = () => device.tensor("f32", [2, 1]);
    const placeholder = pool.placeholder(2);
    const cuSeqlens = [0, 1, 2];
    const [query, key, value, out] = [rows(), rows(), rows(), rows()];
    const args = { query, key, value, gate: scalars(), beta: scalars(), out, gateForm: "log" as const, cuSeqlens };
    await device.prepare((pass) => pass.gatedDelta({ ...args, states: placeholder.layer(0) }));
    // Nothing was written: a step of the pool still has all of it to do.
    const step = pool.step([pool.allocate(), pool.allocate()]);
    expect(() => step.done()).toThrow();
    step.abort();
  });

  test("what cannot be recorded rejects with it", async () => {
    const error = new Error("mine");
    expect(await refused(() => { throw error; })).toBe(error as never);
    expect((await refused(undefined))?.code).toBe("invalid-argument");
    expect((await refused(async () => {}))?.code).toBe("invalid-argument");
    const shapes = await refused((pass: Pass) => pass.linear({ x, weight, out: device.tensor("f32", [3, 8]) }));
    expect([shapes?.code, shapes?.op]).toEqual(["shape", "linear"]);
    const nested = await refused(() => device.wait());
    expect([nested?.code, nested?.op]).toEqual(["state", "device.wait"]);
    await device.prepare(project);
  });

  test("on the CPU there is nothing to wait for", async () => {
    let done = false;
    const preparing = device.prepare(project).then(() => (done = true));
    for (let turn = 0; turn < 8; turn++) await Promise.resolve();
    if (name === "cpu") expect(done).toBe(true);
    await preparing;
    expect(done).toBe(true);
  });

  test("a device that is closed meanwhile says so or was done before", async () => {
    for (let i = 0; i < 20; i++) {
      const other = Device.open(name);
      const preparing = other
        .prepare((pass) => {
          const [a, b] = [other.tensor("f32", [1, 8]), other.tensor("f32", [1, 8])];
          pass.linear({ x: a, weight: diagonal(other, "f32", 8), out: b });
        })
        .then(
          () => undefined,
          (error: unknown) => error,
        );
      other.close();
      const outcome = await preparing;
      if (outcome !== undefined) expect(outcome).toBeInstanceOf(DisposedError);
      expect(await other.prepare(() => {}).catch((error: unknown) => error)).toBeInstanceOf(DisposedError);
    }
  });
});
