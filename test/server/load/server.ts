/** The server under load, in a process of its own: the tiny model with few states and pages, and its numbers at `/figures`. */
import { heapStats } from "bun:jsc";
import { readdirSync } from "node:fs";
import { Device } from "../../../lib/index.ts";
import { LanguageModel, tinyModel } from "../../../lib/model.ts";
import { createHandler } from "../../../lib/server.ts";
import type { RequestLog } from "../../../lib/server.ts";

/** Numbers about the server's process. */
export interface Figures {
  readonly active: number;
  readonly freeStates: number;
  readonly states: number;
  readonly freePages: number;
  readonly pages: number;
  readonly steps: number;
  readonly hits: number;
  readonly tokensSaved: number;
  /** Open descriptors. */
  readonly descriptors: number;
  /** In bytes. */
  readonly rss: number;
  readonly heap: number;
  readonly objects: number;
  /** The most requests that were active at the same time. */
  readonly mostActive: number;
  /** Failures of the server itself. There must not be any. */
  readonly internal: readonly string[];
}

const device = Device.open({ backend: "cpu", threads: 1 });
const model = await LanguageModel.load(device, tinyModel, { states: 40, pages: 500 });
const cache = model.cache({ bytes: 20 * (model.stateBytes + 8 * model.pageBytes), step: 16 });
const internal: string[] = [];
let mostActive = 0;
const log = ({ status, problem, cause }: RequestLog): void => {
  if (status === 500 || cause !== undefined) internal.push(`${status} ${problem} ${String(cause)}`);
};
const handler = createHandler(model, { cache, limits: { bodyBytes: 200_000 }, log });

const descriptors = (): number => readdirSync(process.platform === "linux" ? "/proc/self/fd" : "/dev/fd").length;

function figures(): Figures {
  Bun.gc(true);
  const { heapSize, objectCount } = heapStats();
  const { freeStates, states, freePages, pages, steps } = model;
  return {
    active: handler.active, freeStates, states, freePages, pages, steps, hits: cache.hits, tokensSaved: cache.tokensSaved,
    descriptors: descriptors(), rss: process.memoryUsage.rss(), heap: heapSize, objects: objectCount, mostActive, internal,
  };
}

const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  routes: {
    "/figures": () => Response.json(figures()),
    "/clear": () => {
      cache.clear();
      return Response.json(figures());
    },
  },
  async fetch(request, self) {
    const response = handler(request, self);
    mostActive = Math.max(mostActive, handler.active);
    return await response;
  },
});
console.log(server.port);
