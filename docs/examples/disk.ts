import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Device, StatePool } from "gated-delta";

using device = Device.open("cpu");
using pool = StatePool.create(device, { slots: 2, layers: 1, keyHeads: 2, valueHeads: 4, keyDim: 64, valueDim: 64, convWidth: 4 });
using state = pool.allocate();
const path = join(tmpdir(), `gated-delta-states-${process.pid}.safetensors`);
pool.save([state], path);
const [restored] = pool.load(path);
console.log(restored !== undefined);
rmSync(path);
