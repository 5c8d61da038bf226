/**
 * A process with two devices, each in a Worker: for each line of its input, `WORKLOAD WORKLOAD MILLISECONDS`, both work for this long
 * at the same time, and it prints how many calls a second each made, as JSON. A workload may be `none`.
 */
import { createInterface } from "node:readline";
import type { Order } from "./worker.ts";

/** Resolves with the next message of a Worker. */
function message(worker: Worker): Promise<number> {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<number>) => resolve(data);
    worker.onerror = (event) => reject(new Error(event.message));
  });
}

const env = { ...process.env, GATED_DELTA_BENCH_THREADS: process.argv[2] ?? "2" } as Record<string, string>;
const workers = [0, 1].map(() => new Worker(`${import.meta.dir}/worker.ts`, { env }));
await Promise.all(workers.map(message));
console.log("[]");
for await (const line of createInterface({ input: process.stdin })) {
  const [one, other, milliseconds] = line.split(" ");
  const rates = await Promise.all(
    workers.map(async (worker, i) => {
      const workload = [one, other][i];
      if (workload === "none") return 0;
      const answer = message(worker);
      worker.postMessage({ workload, milliseconds: Number(milliseconds) } as Order);
      return answer;
    }),
  );
  console.log(JSON.stringify(rates));
}
