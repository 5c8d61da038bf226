/**
 * Chooses how many guesses of a batch are verified: all, or fewer if there is too little memory for their records or too few
 * pages for their keys. Guesses take only memory that the certain tokens do not need, and entries share the records evenly.
 */
import type { Entry } from "./batch.ts";
import { PageNeed } from "./page-ledger.ts";
import type { PageLedger } from "./page-ledger.ts";

/** The memory for guesses. */
export interface DraftRoom {
  readonly ledger: PageLedger;
  /** The number of tokens whose records can be kept. */
  readonly rows: number;
  /** The most tokens of an entry that go through the layers at a time. */
  readonly batchTokens: number;
}

/** The entries, each with as many of its first guesses as there is room for. */
export function fitDrafts(entries: readonly Entry[], { ledger, rows, batchTokens }: DraftRoom): readonly Entry[] {
  if (entries.every(({ drafts }) => drafts === 0)) return entries;
  const certain = entries.map(({ tokens, drafts }) => tokens.length - drafts);
  const lists = entries.map(({ parts }) => parts.list);
  const need = new PageNeed(ledger);
  need.add(lists, certain);
  let pages = ledger.free - need.pages;
  let left = rows;
  let drafting = entries.filter(({ drafts }) => drafts > 0).length;
  return entries.map((entry, i) => {
    const { tokens, drafts } = entry;
    if (drafts === 0) return entry;
    const list = lists[i]!;
    const own = ledger.addedBy(list, certain[i]!);
    // How many more tokens fit into the list's pages, those that the certain tokens add, and all that remain.
    const room = (list.pages.length + own + Math.max(pages, 0)) * ledger.pageTokens - list.tokens;
    const share = Math.floor(left / drafting--);
    const fitting = Math.max(0, Math.min(drafts, Math.min(share, batchTokens, room) - certain[i]!));
    if (fitting > 0) {
      left -= certain[i]! + fitting;
      pages -= ledger.addedBy(list, certain[i]! + fitting) - own;
    }
    return fitting === drafts ? entry : { ...entry, tokens: tokens.slice(0, certain[i]! + fitting), drafts: fitting };
  });
}
