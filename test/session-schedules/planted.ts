/** Faults planted into sessions, each of which random schedules must find. */
import { DraftStep } from "../../lib/model/session/draft-step.ts";
import { PageLedger } from "../../lib/model/page-ledger.ts";
import type { PageList } from "../../lib/model/page-ledger.ts";
import { PagePool } from "../../lib/model/page-pool.ts";
import { PrefixStore } from "../../lib/model/prefix/prefix-store.ts";
import type { StoreHit } from "../../lib/model/prefix/prefix-store.ts";
import type { BatchEntry, RunResult, Sequence } from "../../lib/model.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";

/** Each fault: what it is, and a function that plants it. */
export const planted: Readonly<Record<string, () => Disposable>> = {
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
        last = { kept, length: tokens.length };
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
    replace(DraftStep.prototype, "next", (original) => function (this: DraftStep) {
      const entries = (original as (this: DraftStep) => readonly BatchEntry[]).call(this);
      return entries.map((entry) => {
        if (entry.logits !== "all") return entry;
        const tokens = [...entry.tokens];
        return { ...entry, tokens: [...tokens.slice(0, -1), tokens.at(-2)!] };
      });
    } as Method),

  "logits of a draft's rows are one behind": () =>
    replace(DraftStep.prototype, "ran", (original) => function (this: DraftStep, results: readonly RunResult[]) {
      const last = results.at(-1)!;
      const { vocabSize } = last.sequence.model.config;
      const shifted = last.rows < 2 ? last : { rows: last.rows, logits: Float32Array.from([...last.logits.subarray(-vocabSize), ...last.logits.subarray(0, -vocabSize)]) };
      return (original as (this: DraftStep, results: readonly unknown[]) => boolean).call(this, [shifted]);
    } as Method),
};
