/** Workers that have work pending: see worker-with-work.ts. */
import type { Busy, Order } from "./worker-with-work.ts";

/** Starts a Worker; the promise resolves once its work is committed. */
export async function startBusy(order: Order): Promise<{ worker: Worker; busy: Busy; closed: Promise<void> }> {
  const worker = new Worker(new URL("./worker-with-work.ts", import.meta.url).href);
  const closed = new Promise<void>((resolve) => worker.addEventListener("close", () => resolve()));
  const busy = new Promise<Busy>((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data as Busy);
    worker.onerror = ({ message }) => reject(new Error(message));
  });
  worker.postMessage(order);
  return { worker, busy: await busy, closed };
}
