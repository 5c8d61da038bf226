/** A hash of the outputs of linear and expertLinear with int8 activations, for every weight format. */
import { createHash } from "node:crypto";
import { expertLinear, linear } from "../../lib/index.ts";
import type { Device, WeightFormat } from "../../lib/index.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import { groupOf } from "../reference/int8.ts";
import { expertMatrices } from "./experts.ts";
import { Layouts, download } from "./layouts.ts";
import { Random } from "./random.ts";
import { fill } from "./cases.ts";

export function hashOfInt8(device: Device): string {
  const hash = createHash("sha256");
  for (const [at, format] of (Object.keys(weightLayouts) as WeightFormat[]).entries()) {
    if (groupOf(format) === 0) continue;
    const random = new Random(at);
    const { elements } = weightLayouts[format];
    for (const [rows, blocks, features] of [[1, 1, 3], [1, Math.ceil(2300 / elements), 40], [2, 5, 33], [6, 5, 37], [13, 3, 20], [29, 2, 16]] as const) {
      using layouts = new Layouts(device, random);
      const columns = blocks * elements;
      const [dtype, scales] = [random.pick(["f32", "f16", "bf16"] as const), random.pick(["f32", "f16", "bf16"] as const)];
      const x = layouts.rows("x", dtype, fill([rows, columns], dtype, () => random.normal() * 2 ** random.below(5)));
      const matrices = expertMatrices(random, format, [3, features, columns], scales);
      const placed = matrices.place(layouts);
      const [out, each] = [layouts.out("out", "f32", [rows, features]), layouts.out("each", "f32", [rows, 2, features])];
      const ids = device.tensor("id32", [rows, 2]).copyFrom(Int32Array.from({ length: 2 * rows }, () => random.below(3)));
      device.run(linear({ x, ...matrices.of(placed, 1), out, activations: "int8" }), expertLinear({ x, ...placed, ids, out: each, activations: "int8" }));
      device.wait();
      hash.update(download(out)).update(download(each));
    }
  }
  return hash.digest("hex");
}
