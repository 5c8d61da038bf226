/** Requests to one model, as a server gets them: many users, a shared cache, answers that are left, aborted, forked and kept. */
import { join } from "node:path";
import { heapStats } from "bun:jsc";
import { Session } from "../../lib/model.ts";
import { DecodePlans } from "../../lib/model/decode-plan.ts";
import type { LanguageModel, SessionCache } from "../../lib/model.ts";
import { Random } from "../support/random.ts";
import { nthSeed } from "../support/schedules.ts";

/** The process's memory when nothing runs and nothing is cached, after garbage collections, in bytes and objects. */
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
 * Runs the requests of a seed and makes `marks` marks at equal distances, the last one at the end.
 *
 * @throws if a state or page is still in use when nothing runs and the cache is empty.
 */
export async function runRequests(model: LanguageModel, folder: string, count: number, marks: number, seed: number, onMark: (mark: Mark) => void = () => {}): Promise<Mark[]> {
  using plans = new KnownPlans();
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
    // Things kept for later requests depend on the earlier ones and their timing: a thousand objects more or fewer.
    cache.clear();
    plans.clear();
    if (model.freeStates !== model.states || model.freePages !== model.pages) {
      throw new Error(`${model.freeStates} of ${model.states} states and ${model.freePages} of ${model.pages} pages are free`);
    }
    found.push(await mark(end));
    onMark(found.at(-1)!);
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

/** The decode plans of every model that makes any. */
class KnownPlans implements Disposable {
  readonly #all = new Set<DecodePlans>();
  readonly #find = DecodePlans.prototype.find;

  constructor() {
    const [all, find] = [this.#all, this.#find];
    DecodePlans.prototype.find = function (...args) {
      all.add(this);
      return find.apply(this, args);
    };
  }

  clear(): void {
    for (const plans of this.#all) for (const bank of [0, 1] as const) plans.clear(bank);
  }

  [Symbol.dispose](): void {
    DecodePlans.prototype.find = this.#find;
  }
}

/** The engine's cells for compiled functions: their number grows as more functions become hot. */
const compiled = /CodeBlock$|Executable$|^Structure|^SymbolTable$/;

async function mark(requests: number): Promise<Mark> {
  let [heap, objects] = [Infinity, Infinity];
  // Finalizers and finished work let go of objects in later turns, so this goes on until two collections find nothing more.
  for (let same = 0, round = 0; same < 2 && round < 100; round++) {
    await Bun.sleep(1);
    Bun.gc(true);
    const { heapSize, objectTypeCounts } = heapStats();
    const count = Object.entries(objectTypeCounts).reduce((sum, [type, cells]) => (compiled.test(type) ? sum : sum + cells), 0);
    same = count < objects ? 0 : same + 1;
    objects = Math.min(objects, count);
    heap = Math.min(heap, heapSize);
  }
  return { requests, rss: process.memoryUsage().rss, heap, objects };
}
