import { describe, expect, test } from "bun:test";
import { gatedDeltaNetInplace } from "../lib/ggml.ts";
import { linear } from "../lib/index.ts";
import type { Op, Tensor } from "../lib/index.ts";
import { constants } from "../lib/native/layout.ts";
import { asPointer } from "../lib/native/handle.ts";
import { native } from "../lib/device/device-handle.ts";
import { counting, diagonal, openDevice, thrownBy } from "./support/devices.ts";
import { failAt } from "./support/faults.ts";
import { testLibrary } from "./support/test-library.ts";

/** An op that copies numbers to `out`, which holds zeros. */
function copying(device: ReturnType<typeof openDevice>): { op: Op; out: Tensor<"f32">; done: () => boolean } {
  const out = device.tensor("f32", [1, 8]);
  const x = counting(device, "f32", [1, 8], 1);
  return { op: linear({ x, weight: diagonal(device, "f32", 8), out }), out, done: () => out.data[0] === 1 };
}

describe("failures on request", () => {
  test("the n-th encoding fails and encodes nothing, on a device and on a plan", () => {
    using device = openDevice();
    const { op, done } = copying(device);
    failAt(device, "encode", 2);
    device.encode(op);
    expect(thrownBy(() => device.encode(op))).toMatchObject({ code: "device", op: "linear" });
    device.encode(op);
    device.run();
    device.wait();
    expect(done()).toBe(true);
    failAt(device, "encode");
    expect(thrownBy(() => device.plan((pass) => pass.encode(op))).code).toBe("device");
    device.plan((pass) => pass.encode(op))[Symbol.dispose]();
  });

  test("the n-th commit fails and commits nothing, a plan's run too", () => {
    using device = openDevice();
    const { op, out, done } = copying(device);
    failAt(device, "commit", 2);
    expect(device.run(op)).toBe(1);
    device.wait();
    out.data.fill(0);
    expect(thrownBy(() => device.run(op))).toMatchObject({ code: "device", op: "device.run" });
    expect(device.lastTicket).toBe(1);
    device.wait();
    expect(done()).toBe(false);
    using plan = device.plan((pass) => pass.encode(op));
    failAt(device, "commit");
    expect(thrownBy(() => plan.run())).toMatchObject({ code: "device", op: "plan.run" });
    device.wait();
    expect(done()).toBe(false);
    expect(plan.run()).toBe(2);
    device.wait();
    expect(done()).toBe(true);
  });

  test("the n-th op fails when it runs: those before it have run, those after it have not", () => {
    using device = openDevice();
    const work = Array.from({ length: 5 }, () => copying(device));
    failAt(device, "run", 3);
    device.run(work[0]!.op);
    device.run(...work.slice(1, 4).map(({ op }) => op));
    device.run(work[4]!.op);
    expect(thrownBy(() => device.wait())).toMatchObject({ code: "device", op: "linear" });
    device.wait();
    expect(work.map(({ done }) => done())).toEqual([true, true, false, false, true]);
  });

  test("an op of a plan fails, once, by the name that it was recorded under", async () => {
    using device = openDevice();
    const f32 = (...shape: number[]) => device.tensor("f32", shape);
    const [q, k, v, out] = [f32(1, 1, 1, 8), f32(1, 1, 1, 8), f32(1, 1, 1, 8), f32(1, 1, 1, 8)];
    const state = f32(1, 1, 8, 8);
    const args = { q, k, v, gate: f32(1, 1, 1), beta: f32(1, 1, 1), state, stateDst: state, out };
    using plan = device.plan((pass) => pass.encode(gatedDeltaNetInplace(args)));
    failAt(device, "run", 2);
    for (let i = 0; i < 3; i++) plan.run();
    const failure = await device.finish().catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "device", op: "gatedDeltaNetInplace" });
    await device.finish();
  });

  test("a request can be taken back, and is for one device alone", () => {
    using device = openDevice();
    using other = openDevice();
    failAt(device, "run");
    failAt(device, "commit", 2);
    const theirs = copying(other);
    other.run(theirs.op);
    other.wait();
    failAt(device, "run", 0);
    failAt(device, "commit", 0);
    const { op } = copying(device);
    for (let i = 0; i < 3; i++) device.run(op);
    device.wait();
  });

  test("an unknown stage is refused", () => {
    using device = openDevice();
    expect(testLibrary().gd_test_fail(asPointer(device[native]), 9, 1)).toBe(constants.GD_ERROR_INVALID_ARGUMENT);
  });
});
