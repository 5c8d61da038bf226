/** Requests to one model, as a server has them: many users, a shared cache, answers that are left, aborted, forked and kept. */
import { join } from "node:path";
import { heapStats } from "bun:jsc";
import { Session } from "../../lib/model.ts";
import type { LanguageModel, SessionCache } from "../../lib/model.ts";
import { Random } from "../support/random.ts";
import { nthSeed } from "../support/schedules.ts";

/** The process's memory at some time, after a garbage collection, in bytes and objects. */
export interface Mark {
  readonly requests: number;
  readonly rss: number;
  readonly heap: number;
  readonly objects: number;
}

/** Requests that run at the same time. */
const atOnce = 4;

const users = 8;
const stemTokens = 24;

/**
 * Runs requests of a seed and takes `marks` marks at equal distances, the last one at the end.
 *
 * @throws where a state or page is still taken when nothing runs and the cache is empty.
 */
export async function runRequests(model: LanguageModel, folder: string, count: number, marks: number, seed: number, onMark: (mark: Mark) => void = () => {}): Promise<Mark[]> {
  using cache = model.cache({ bytes: 6 * model.stateBytes, step: 8 });
  const found: Mark[] = [];
  let next = 0;
  for (let part = 1; part <= marks; part++) {
    const end = Math.floor((count * part) / marks);
    const worker = async (): Promise<void> => {
      while (next < end) {
        const n = next++;
        await request(model, cache, join(folder, `kept-${n % 16}`), new Random(nthSeed(seed, n)));
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    found.push(mark(end));
    onMark(found.at(-1)!);
  }
  cache.clear();
  if (model.freeStates !== model.states || model.freePages !== model.pages) {
    throw new Error(`${model.freeStates} of ${model.states} states and ${model.freePages} of ${model.pages} pages are free`);
  }
  return found;
}

async function request(model: LanguageModel, cache: SessionCache, path: string, random: Random): Promise<void> {
  const user = random.below(users);
  const stem = Array.from({ length: stemTokens }, (_, i) => (user * 7 + i * i) % model.config.vocabSize);
  const text = [...stem.slice(0, 1 + random.below(stemTokens)), ...Array.from({ length: 1 + random.below(8) }, () => random.below(model.config.vocabSize))];
  const options = { cache: random.below(8) === 0 ? undefined : cache, salt: `${user % 3}` };
  const controller = new AbortController();
  using session = model.session(options).append(text);
  const how = random.below(16);
  const generating = { maxTokens: 1 + random.below(5), ignoreModelStops: true, drafts: random.below(4) === 0, temperature: random.below(2), seed: user, signal: controller.signal };
  try {
    for await (const _ of session.generate(generating)) {
      if (how === 0) break;
      if (how === 1) controller.abort(new Error("enough"));
      if (how === 2) session[Symbol.dispose]();
    }
    if (how === 3) {
      using fork = session.fork();
      await fork.append([1]).logits();
    }
    if (how === 4) {
      await session.save(path);
      using restored = await Session.load(model, path, options);
      await restored.append([2]).logits();
    }
  } catch (error) {
    if (how !== 1 && how !== 2) throw error;
  }
}

function mark(requests: number): Mark {
  for (let i = 0; i < 3; i++) Bun.gc(true);
  const { heapSize: heap, objectCount: objects } = heapStats();
  return { requests, rss: process.memoryUsage().rss, heap, objects };
}
