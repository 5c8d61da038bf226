/** Guesses verified in batches with other entries. Any number of them is accepted: a state does not depend on whether they were right. */
import { entryOf } from "../../lib/model/batch.ts";
import { memoryOf } from "../../lib/model/model-memory.ts";
import { verificationOf } from "../../lib/model/run-result.ts";
import type { TokenRole } from "../../lib/model.ts";
import { ofRole } from "../support/roles.ts";
import type { Random } from "../support/random.ts";
import { longestText } from "./fixtures.ts";
import { Difference } from "../support/schedules.ts";
import type { Reader, Schedule } from "./schedule.ts";

interface Guess {
  readonly reader: Reader;
  readonly tokens: readonly number[];
  readonly drafts: number;
  readonly role: TokenRole;
}

function guessOf(schedule: Schedule, random: Random, reader: Reader): Guess {
  const certain = random.below(3) === 0 ? 1 + random.below(20) : 1;
  const drafts = random.below(4) === 0 ? 0 : 1 + random.below(8);
  // Guesses are generated, and follow tokens of their own role.
  return { reader, tokens: schedule.text(random, certain + drafts), drafts, role: drafts > 0 ? "generated" : schedule.role(random) };
}

/** Adds an entry's results to its reader's history. */
function keep(schedule: Schedule, random: Random, { reader, tokens, drafts, role }: Guess, logits: Float32Array, end: ReturnType<typeof verificationOf>): void {
  const { vocabSize } = schedule.fixture.model.config;
  const certain = tokens.length - drafts;
  const had = reader.tokens.length;
  const most = end?.drafts ?? 0;
  if (end !== undefined) schedule.count("guesses verified", most);
  if (most < drafts) schedule.count("guesses without room", drafts - most);
  const kind = end === undefined ? "accepted" : random.pick(["accepted", "accepted", "narrowed", "left", "open"] as const);
  const accepted = random.below(most + 1);
  if (kind === "narrowed") end!.narrow(accepted);
  if (end !== undefined && reader.sequence.tokens !== had) throw new Difference(`s${reader.id} has tokens of guesses that were not accepted`);
  if (kind === "left") end!.leave();
  schedule.lines.push(`  s${reader.id}: ${kind}, ${accepted} of ${most}`);
  if (kind === "left" || kind === "open") return; // an open verification ends when the sequence runs, forks or ends
  end?.accept(accepted);
  schedule.count("guesses accepted", accepted);
  for (let row = 0; row <= accepted; row++) {
    reader.answers.set(had + certain + row, logits.slice(row * vocabSize, (row + 1) * vocabSize));
  }
  reader.tokens.push(...ofRole(schedule.fixture.model, role, tokens.slice(0, certain + accepted)));
}

/** Some sequences verify, others read: if pages are short, the guesses give way. */
export async function verify(schedule: Schedule, random: Random): Promise<void> {
  if (schedule.readers.length === 0) return;
  const { model } = schedule.fixture;
  const room = schedule.readers.filter(({ tokens }) => tokens.length + 30 < longestText);
  const chosen = random.distinct(Math.min(1 + random.below(4), room.length), room.length).map((i) => room[i]!);
  const guesses = chosen.map((reader) => guessOf(schedule, random, reader));
  // The certain tokens have pages in any case.
  const pagesOf = (tokens: number) => Math.ceil(tokens / model.pageTokens);
  const needed = guesses.reduce((sum, { reader, tokens, drafts }) => sum + pagesOf(reader.tokens.length + tokens.length - drafts) - pagesOf(reader.tokens.length) + 1, 0);
  if (guesses.length === 0 || (needed > model.freePages && model.pages > 0)) return;
  schedule.lines.push(`verify ${guesses.map(({ reader, tokens, drafts, role }) => `s${reader.id} + [${tokens.join()}], ${drafts} of them guesses, ${role}`).join("; ")}`);
  const entries = guesses.map(({ reader: { sequence }, tokens, drafts, role }) => entryOf({ sequence, tokens, role }, drafts));
  const results = await memoryOf(model).run("test", entries);
  const rows = results.map(({ logits }) => logits.slice());
  for (const [i, guess] of guesses.entries()) keep(schedule, random, guess, rows[i]!, verificationOf(results[i]!));
  schedule.committed({ entries: [], readers: [] });
  schedule.count("verifications");
}
