/** Faults planted into the code for a shortage of memory, each of which random schedules must find. */
import { GatedDeltaError } from "../../lib/errors.ts";
import type { Sequence } from "../../lib/model.ts";
import { PageLedger } from "../../lib/model/page-ledger.ts";
import type { PageList } from "../../lib/model/page-ledger.ts";
import type { Conversation } from "../../lib/model/session/conversation.ts";
import { Holding } from "../../lib/model/session/holding.ts";
import { SessionMemory } from "../../lib/model/session/memory.ts";
import { ReadAll } from "../../lib/model/session/read-all.ts";
import { Request } from "../../lib/model/session/request.ts";
import { Room } from "../../lib/model/session/room.ts";
import { Scheduler } from "../../lib/model/session/scheduler.ts";
import { Stored, SwapSpace } from "../../lib/model/session/stored.ts";
import type { Elements } from "../../lib/model/snapshot.ts";
import { Verification } from "../../lib/model/verification.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";

/** The memory of sessions can't be taken: rooms are not told about it. */
const nothingIsTaken = (): Disposable =>
  replace(Room.prototype, "hold", () => function (sequence: Sequence, holder: Conversation) {
    return new Holding(sequence, () => {}).join(holder);
  } as Method);

/** Each fault by its description, and a function that plants it. */
export const planted: Readonly<Record<string, () => Disposable>> = {
  "sessions keep what they have, also those that do nothing": nothingIsTaken,

  "sessions keep what they have, and where all wait the last one fails": () => {
    const stack = new DisposableStack();
    stack.use(nothingIsTaken());
    const waiting = new WeakMap<Scheduler, { error: (error: unknown) => void }[]>();
    stack.use(replace(Scheduler.prototype, "do", (original) => function (this: Scheduler, ...args: Parameters<Scheduler["do"]>) {
      const all = waiting.get(this) ?? [];
      waiting.set(this, all);
      const work = (original as Scheduler["do"]).apply(this, args);
      return new Promise<void>((resolve, reject) => {
        const one = { error: reject };
        all.push(one);
        const { steps } = this;
        const timer = setInterval(() => {
          if (this.steps === steps && all.at(-1) === one) reject(new GatedDeltaError("out-of-memory", { op: "session", expected: "free pages", received: "none" }));
        }, 100);
        work.then(resolve, reject).finally(() => {
          clearInterval(timer);
          all.splice(all.indexOf(one), 1);
        });
      });
    } as Method));
    return stack;
  },

  "the request that came first gives way": () => {
    let ages = 0;
    return replace(Scheduler.prototype, "request", () => function (whenFull: "wait" | "error") {
      return new Request(--ages, whenFull);
    } as Method);
  },

  "a request whose consumer pauses keeps what it has": () => {
    const paused = Object.getOwnPropertyDescriptor(Request.prototype, "paused")!;
    Object.defineProperty(Request.prototype, "paused", { ...paused, get: () => false });
    return { [Symbol.dispose]: () => void Object.defineProperty(Request.prototype, "paused", paused) };
  },

  "what was taken is read again with a token left out": () => {
    const stack = new DisposableStack();
    const taken = new WeakSet<SessionMemory>();
    const again = new WeakSet<Sequence>();
    stack.use(replace(SessionMemory.prototype, "giveBack", (original) => function (this: SessionMemory, stored: Stored | undefined) {
      if (stored === undefined) taken.add(this);
      (original as SessionMemory["giveBack"]).call(this, stored);
    } as Method));
    stack.use(replace(SessionMemory.prototype, "begin", (original) => function (this: SessionMemory) {
      const cached = (original as SessionMemory["begin"]).call(this);
      if (taken.delete(this) && this.holding !== undefined) again.add(this.holding.sequence);
      return cached;
    } as Method));
    stack.use(replace(ReadAll.prototype, "next", (original) => function (this: ReadAll, most: number) {
      const entry = (original as ReadAll["next"]).call(this, most);
      return again.has(entry.sequence) && entry.tokens.length > 1 ? { ...entry, tokens: [entry.tokens[1]!, ...entry.tokens.slice(1)] } : entry;
    } as Method));
    return stack;
  },

  "one guess too many is accepted": () => {
    const stack = new DisposableStack();
    stack.use(replace(Verification.prototype, "narrow", () => () => {}));
    stack.use(replace(Verification.prototype, "accept", (original) => function (this: Verification, drafts: number) {
      (original as Verification["accept"]).call(this, Math.min(drafts + 1, this.drafts));
    } as Method));
    return stack;
  },

  "pages of guesses are cut a token too short": () =>
    replace(PageLedger.prototype, "cut", (original) => function (this: PageLedger, op: string, list: PageList, tokens: number) {
      (original as PageLedger["cut"]).call(this, op, list, Math.max(tokens - 1, 1));
    } as Method),

  "what was copied comes back as a token shorter": () =>
    replace(SwapSpace.prototype, "take", (original) => function (this: SwapSpace, ...args: Parameters<SwapSpace["take"]>) {
      const stored = (original as SwapSpace["take"]).apply(this, args);
      const { tokens } = stored.snapshot;
      if (tokens < 2) return stored;
      return Object.assign(stored, { snapshot: { ...stored.snapshot, tokens: tokens - 1, pages: stored.snapshot.pages.map((layer) => shorter(layer, tokens)) } });
    } as Method),

  "a session gets what was copied of another one": () => {
    let last: Stored | undefined;
    return replace(SwapSpace.prototype, "take", (original) => function (this: SwapSpace, ...args: Parameters<SwapSpace["take"]>) {
      const stored = (original as SwapSpace["take"]).apply(this, args);
      const other = last;
      last = stored;
      return other !== undefined && sameForm(other, stored) ? Object.assign(stored, { snapshot: { ...stored.snapshot, states: other.snapshot.states } }) : stored;
    } as Method);
  },
};

type Layer = Stored["snapshot"]["pages"][number];

/** Keys and values of `[kvHeads, tokens, headDim]` without the last token. */
function shorter({ keys, values }: Layer, tokens: number): Layer {
  const cut = (elements: Layer["keys"]): Layer["keys"] => {
    const { dtype, data } = elements as Elements; // copies of the host's memory are whole
    const headDim = 16;
    const heads = data.length / tokens / headDim;
    const kept = data.slice(0, heads * (tokens - 1) * headDim);
    for (let head = 0; head < heads; head++) kept.set(data.subarray(head * tokens * headDim, (head * tokens + tokens - 1) * headDim), head * (tokens - 1) * headDim);
    return { dtype, data: kept };
  };
  return { keys: cut(keys), values: cut(values) };
}

/** Whether the states of one session fit into the other's model. */
function sameForm({ snapshot: a }: Stored, { snapshot: b }: Stored): boolean {
  const form = ({ states }: Stored["snapshot"]) => states.map((layer) => Object.values(layer).map((of) => `${of?.dtype} ${of?.data.length}`).join()).join(";");
  return form(a) === form(b) && a.states.length > 0;
}
