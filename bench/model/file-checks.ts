/**
 * Measures the comparison of mapped files before a submission: the time of `plan.run()` for a plan whose one op reads weights in
 * 1 to 64 mapped files, less that of the same plan over copies, per file.
 *
 *     bun bench/model/file-checks.ts
 */
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Device, linear } from "../../lib/index.ts";
import type { Tensor } from "../../lib/index.ts";
import { fileMapping } from "../../lib/tensor/mapped-storage.ts";
import { makeTensor } from "../../lib/tensor/tensor.ts";

const folder = mkdtempSync(join(tmpdir(), "gated-delta-bench-"));
using device = Device.open({ backend: "cpu", threads: 1 });
const x = device.tensor("f32", [1, 8]);

function inFile(name: string): Tensor {
  const path = join(folder, name);
  writeFileSync(path, new Uint8Array(4 * 64));
  const descriptor = openSync(path, "r");
  const [window] = device[fileMapping].map("bench", { path, descriptor }, [{ offset: 0, bytes: 256 }]);
  closeSync(descriptor);
  return makeTensor(device, window!.storage({ offset: 0, bytes: 256 }), "f32", 0, [8, 8], [8, 1]) as Tensor;
}

/** Microseconds of a replay: the least of several rounds. */
function replay(weights: readonly Tensor[]): number {
  const outs = weights.map(() => device.tensor("f32", [1, 8]));
  using plan = device.plan((pass) => weights.forEach((weight, i) => pass.linear({ x, weight, out: outs[i]! })));
  let best = Infinity;
  for (let round = 0; round < 40; round++) {
    const start = performance.now();
    for (let i = 0; i < 100; i++) plan.run();
    best = Math.min(best, (performance.now() - start) * 10);
    device.wait();
  }
  return best;
}

device.run(linear({ x, weight: device.tensor("f32", [8, 8]), out: device.tensor("f32", [1, 8]) }));
device.wait();
for (const count of [1, 8, 64]) {
  const copied = Array.from({ length: count }, () => device.tensor("f32", [8, 8]));
  const mapped = Array.from({ length: count }, (_, i) => inFile(`${count}-${i}`));
  const [without, checked] = [replay(copied), replay(mapped)];
  console.log(`${count} files: ${without.toFixed(2)} µs copied, ${checked.toFixed(2)} µs mapped, ${((checked - without) / count).toFixed(2)} µs a file`);
}
rmSync(folder, { recursive: true });
