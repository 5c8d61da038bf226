/** Faults planted into sessions, each of which random schedules must find. */
import { Conversation } from "../../lib/model/session/conversation.ts";
import { DraftStep } from "../../lib/model/session/draft-step.ts";
import { ReadAll } from "../../lib/model/session/read-all.ts";
import { PageLedger } from "../../lib/model/page-ledger.ts";
import type { PageList } from "../../lib/model/page-ledger.ts";
import { PagePool } from "../../lib/model/page-pool.ts";
import { PrefixStore } from "../../lib/states/prefix-store.ts";
import type { StoreHit } from "../../lib/states/prefix-store.ts";
import { verificationOf } from "../../lib/model/run-result.ts";
import type { Entry } from "../../lib/model/batch.ts";
import { Draft } from "../../lib/index.ts";
import { StepAhead } from "../../lib/states/step-ahead.ts";
import { RunResult } from "../../lib/model.ts";
import type { Sequence } from "../../lib/model.ts";
import { expertFaults } from "../support/expert-faults.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";

/** Rows of a verification, the last one first. */
function shiftedLogits(): Disposable {
  const original = Object.getOwnPropertyDescriptor(RunResult.prototype, "logits")!;
  Object.defineProperty(RunResult.prototype, "logits", {
    ...original,
    get(this: RunResult): Float32Array {
      const logits = original.get!.call(this) as Float32Array;
      if (verificationOf(this) === undefined) return logits;
      const { vocabSize } = this.sequence.model.config;
      return Float32Array.from([...logits.subarray(-vocabSize), ...logits.subarray(0, -vocabSize)]);
    },
  });
  return { [Symbol.dispose]: () => void Object.defineProperty(RunResult.prototype, "logits", original) };
}

/** A session that goes back keeps its state, which has read other tokens than the session says. */
function keptState(): Disposable {
  return replace(Conversation.prototype, "rewind", (original) => function (this: Conversation, length: number) {
    const { drop } = this.memory;
    this.memory.drop = () => {};
    try {
      return (original as (this: Conversation, length: number) => number).call(this, length);
    } finally {
      this.memory.drop = drop;
    }
  } as Method);
}

/** A fault for numbers that depend on tokens' roles. The one of caches that mix up roles is in model/roles.test.ts: such hits are rare. */
export const plantedRoles: Readonly<Record<string, () => Disposable>> = {
  "what was generated is read again as a prompt": () =>
    replace(ReadAll.prototype, "next", (original) => function (this: ReadAll, most: number) {
      return { ...(original as (this: ReadAll, most: number) => Entry).call(this, most), role: "read" };
    } as Method),
};

/** Each fault by its description, and a function that plants it. */
export const planted: Readonly<Record<string, () => Disposable>> = {
  ...expertFaults,

  "a shared page is left, and what is in it is not copied": () => replace(PagePool.prototype, "copies", () => (() => []) as Method),

  "a page in use is given back: a fork does not count": () =>
    replace(PageLedger.prototype, "fork", (original) => function (this: PageLedger, op: string, list: PageList) {
      const forked = (original as (this: PageLedger, op: string, list: PageList) => PageList).call(this, op, list);
      this.release(op, { ...forked, pages: [...forked.pages] });
      return forked;
    } as Method),

  "a stale checkpoint: where there is none, what was kept last is found": () => {
    let last: StoreHit<Sequence> | undefined;
    const stack = new DisposableStack();
    stack.use(replace(PrefixStore.prototype, "insert", (original) => function (this: PrefixStore<Sequence>, ...[tokens, make, ...more]: Parameters<PrefixStore<Sequence>["insert"]>) {
      const noted = () => {
        const kept = make();
        if (kept !== undefined) last = { kept, length: tokens.length };
        return kept;
      };
      return (original as PrefixStore<Sequence>["insert"]).call(this, tokens, noted, ...more);
    } as Method));
    stack.use(replace(PrefixStore.prototype, "lookup", (original) => function (this: PrefixStore<Sequence>, tokens: Uint32Array, salt: string) {
      const hit = (original as PrefixStore<Sequence>["lookup"]).call(this, tokens, salt);
      return hit ?? (last !== undefined && !last.kept.disposed && last.kept.valid && last.length <= tokens.length ? last : undefined);
    } as Method));
    return stack;
  },

  "the last guess that is read is the one before it": () =>
    replace(DraftStep.prototype, "next", (original) => function (this: DraftStep, most: number) {
      const entry = (original as (this: DraftStep, most: number) => Entry).call(this, most);
      return entry.drafts > 0 ? { ...entry, tokens: [...entry.tokens.slice(0, -1), entry.tokens.at(-2)!] } : entry;
    } as Method),

  "logits of a draft's rows are one behind": shiftedLogits,

  "of the tokens that are accepted the state lacks the last": () =>
    replace(Draft.prototype, "commit", (original) => function (this: Draft, accepted: readonly number[]) {
      return (original as (this: Draft, accepted: readonly number[]) => number).call(this, accepted.map((count) => count - 1));
    } as Method),

  "a session that goes back keeps its state": keptState,

  "of the tokens of steps ahead the state lacks the last": () => replace(StepAhead.prototype, "take", () => (() => {}) as Method),

  "a step ahead writes into pages that others hold": () =>
    replace(PageLedger.prototype, "staysInPage", () => function ({ pages, tokens }: PageList) {
      return pages.length * 7 > tokens;
    } as Method),

  "keys of wrong guesses stay in the pages": () => replace(PageLedger.prototype, "cut", () => (() => {}) as Method),
};
