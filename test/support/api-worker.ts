/** A Worker that performs one task with its own device; see workers.test.ts. */
import { Device, linear } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { library } from "../../lib/native/library.ts";
import { diagonal, slowWork } from "./devices.ts";

/** The tasks of a Worker. */
export type Task =
  | { readonly kind: "compute"; readonly backend: BackendName; readonly seed: number; readonly rounds: number }
  | {
      readonly kind: "slow";
      readonly backend: BackendName;
      readonly submissions: number;
      readonly shared: SharedArrayBuffer;
    }
  | { readonly kind: "double"; readonly backend: BackendName; readonly shared: SharedArrayBuffer }
  | { readonly kind: "foreign"; readonly device: number };

declare const self: Worker;

self.onmessage = async ({ data: task }: MessageEvent<Task>) => {
  try {
    postMessage(await perform(task));
  } catch (error) {
    postMessage(`failed: ${String(error)}`);
  }
};

async function perform(task: Task): Promise<unknown> {
  if (task.kind === "foreign") {
    const native = library();
    const handle = task.device as never;
    return [
      native.gd_commit(handle, null),
      native.gd_discard(handle),
      native.gd_device_close(handle),
      native.gd_wait(handle, 0, 0),
    ];
  }
  const device = Device.open({ backend: task.backend });
  switch (task.kind) {
    case "compute": {
      let x = device.tensorFrom(
        "f32",
        [1, 8],
        Array.from({ length: 8 }, (_, i) => task.seed + i),
      );
      const weight = diagonal(device, "f32", 8, 2);
      for (let round = 0; round < task.rounds; round++) {
        const out = device.tensor("f32", [1, 8]);
        device.run(linear({ x, weight, out }));
        await device.finish();
        x[Symbol.dispose]();
        x = out;
      }
      const result = [...x.data];
      device.close();
      return result;
    }
    case "slow": {
      // Never closed: the test ends the Worker while the work is running.
      const { op } = slowWork(device);
      for (let i = 0; i < task.submissions; i++) device.run(op);
      Atomics.store(new Int32Array(task.shared), 0, 1);
      await device.finish();
      return await new Promise(() => {});
    }
    case "double": {
      using x = device.wrap("f32", [16, 1024], task.shared);
      const out = device.tensor("f32", [16, 1024]);
      device.run(linear({ x, weight: diagonal(device, "f32", 1024, 2), out }));
      device.wait();
      x.copyFrom(out);
      device.close();
      return "doubled";
    }
  }
}
