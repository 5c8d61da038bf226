/** Faults planted into sessions, each of which random schedules must find. */
import { Conversation } from "../../lib/model/session/conversation.ts";
import { DraftStep } from "../../lib/model/session/draft-step.ts";
import { PagePool } from "../../lib/model/page-pool.ts";
import { PrefixStore } from "../../lib/model/prefix/prefix-store.ts";
import type { RunResult, Sequence } from "../../lib/model.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";

/** Each fault: what it is, and a function that plants it. */
export const planted: Readonly<Record<string, () => Disposable>> = {
  "a shared page is left, and what is in it is not copied": () => replace(PagePool.prototype, "copies", () => (() => []) as Method),

  "a checkpoint is kept under one token more than it has read": () =>
    replace(Conversation.prototype, "keep", () => function (this: Conversation, likely = 1) {
      const { sequence, cache, tokens } = this;
      if (cache === undefined || sequence === undefined || sequence.disposed || sequence.tokens >= tokens.length) return;
      cache.insert(Uint32Array.from(tokens.slice(0, sequence.tokens + 1)), sequence, this.salt, likely);
    } as Method),

  "a stale checkpoint: what is found is the entry that was put in last": () => {
    let last: Sequence | undefined;
    return replace(PrefixStore.prototype, "insert", (original) => function (this: PrefixStore<Sequence>, tokens: Uint32Array, make: () => Sequence, ...rest: [string, number]) {
      const remembered = () => {
        const stale = last !== undefined && !last.disposed && last.model === make().model ? last.fork() : make();
        last = make();
        return stale;
      };
      return (original as (this: PrefixStore<Sequence>, ...args: unknown[]) => boolean).call(this, tokens, remembered, ...rest);
    } as Method);
  },

  "one wrong guess is taken for right": () =>
    replace(DraftStep.prototype, "drop", () => function () {} as Method),

  "logits of a draft's rows are one behind": () =>
    replace(DraftStep.prototype, "ran", (original) => function (this: DraftStep, results: readonly RunResult[]) {
      const last = results.at(-1)!;
      const { vocabSize } = last.sequence.model.config;
      const shifted = last.rows < 2 ? last : { rows: last.rows, logits: Float32Array.from([...last.logits.subarray(-vocabSize), ...last.logits.subarray(0, -vocabSize)]) };
      return (original as (this: DraftStep, results: readonly unknown[]) => boolean).call(this, [shifted]);
    } as Method),
};
