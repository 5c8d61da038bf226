import * as all from "gated-delta";
import { Device, GatedDeltaNet, LibraryError, PrefixCache, StatePool, Tensor, gatedDelta, libraryInfo } from "gated-delta";
import type { DType, GatedDeltaArguments, StateHandle, StatePoolOptions } from "gated-delta";

export function use(folder: string): string {
  using device = Device.open({ backend: "cpu", threads: 2 });
  const options: StatePoolOptions = { slots: 4, layers: 1, keyHeads: 2, valueHeads: 4, keyDim: 64, valueDim: 64, convWidth: 4 };
  using pool = StatePool.create(device, options);
  using cache = new PrefixCache(pool, { bytes: 2 ** 20 });
  const states: StateHandle[] = [pool.allocate()];
  const x: Tensor<"f32"> = device.tensor("f32", [1, 8]);
  const numbers: Float32Array = x.data;
  const halves: Float16Array = device.tensor("f16", [4]).data;
  const dtype: DType = x.dtype;
  // @ts-expect-error there is no such dtype
  device.tensor("f64", [1]);
  // @ts-expect-error the arguments are missing
  gatedDelta({});
  type Query = GatedDeltaArguments["query"];
  const query: Query = x;
  using layer = GatedDeltaNet.load(device, folder, { layer: 0 });
  pool.run(states, (step) => layer.forward({ hidden: x, out: x, step }));
  try {
    return `${libraryInfo().path} ${cache.budget} ${numbers.length} ${halves.length} ${dtype} ${query.shape} ${Object.keys(all)}`;
  } catch (error) {
    return error instanceof LibraryError ? error.code : "";
  }
}
