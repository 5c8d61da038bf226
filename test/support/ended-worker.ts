/**
 * A short process: a Worker ends while native threads use memory that only the Worker holds. Here, that memory is allocated
 * again, to arrays that nothing else may change. Prints how many of them have changed.
 *
 * Arguments: the backend, and `exit` or `terminate`: how the Worker ends.
 */
import type { BackendName } from "../../lib/index.ts";
import type { Order } from "./worker-with-work.ts";

const [backend, end] = process.argv.slice(2);
const worker = new Worker(new URL("./worker-with-work.ts", import.meta.url).href);
const closed = new Promise((resolve) => worker.addEventListener("close", resolve));
// The Worker's message is dropped together with its memory, which only the Worker holds.
const busy = new Promise<void>((resolve) => (worker.onmessage = () => resolve()));
worker.postMessage({
  backend: backend as BackendName,
  wrapped: true,
  submissions: 64,
  milliseconds: 400,
  exits: end === "exit",
} satisfies Order);
await busy;
if (end === "terminate") worker.terminate();

const arrays: Float32Array[] = [];
/** Memory of the sizes that the Worker had, each array filled with its own number. */
function allocate(): void {
  for (const bytes of [16384, 32768, 49152, 65536, 98304]) {
    arrays.push(new Float32Array(new SharedArrayBuffer(bytes)).fill(arrays.length + 0.5));
    arrays.push(new Float32Array(bytes / 4).fill(arrays.length + 0.5));
  }
}
const until = performance.now() + 400;
while (performance.now() < until) {
  if (arrays.length < 1000) allocate();
  await Bun.sleep(1);
}
await closed;
await Bun.sleep(50);
const changed = arrays.filter((array, index) => array.some((value) => value !== index + 0.5));
console.log(`${changed.length} changed`);
process.exit(0);
