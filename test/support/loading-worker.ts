/** A Worker that loads a model again and again until it is ended; the folder comes as the first message. */
import { Device } from "../../lib/index.ts";
import { loadModelWeights } from "../../lib/model/load-weights.ts";

declare const self: Worker;

self.onmessage = async ({ data: folder }: MessageEvent<string>) => {
  const device = Device.open();
  let pieces = 0;
  const onProgress = () => {
    if (++pieces % 16 === 0) self.postMessage(pieces);
  };
  for (;;) {
    const { weights } = await loadModelWeights(device, folder, { onProgress });
    weights[Symbol.dispose]();
  }
};
