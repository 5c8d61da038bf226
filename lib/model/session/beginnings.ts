/**
 * Requests with a common prefix and a common cache: while an earlier one reads the prefix, a later one waits for it, and
 * then continues from the cache.
 */
import type { Conversation } from "./conversation.ts";
import { ReadAll } from "./read-all.ts";
import type { Job } from "./scheduler.ts";

/**
 * Whether a job that has read nothing waits for an earlier one.
 *
 * @param jobs all of them, by the age of their requests.
 */
export function waitsForBeginning(job: Job, jobs: readonly Job[]): boolean {
  const { conversation } = job;
  const { cache, salt } = conversation.context;
  if (cache === undefined || !conversation.memory.empty) return false;
  const most = conversation.tokens.length - 1;
  let known: number | undefined;
  for (const other of jobs) {
    if (other === job) break;
    const { work, conversation: { context, tokens, origin, memory: { ready, read } } } = other;
    if (context.cache !== cache || context.salt !== salt || origin === "file" || !(work instanceof ReadAll) || work.left <= 1) continue;
    const shared = sharedBy(job, other, most);
    if (shared < cache.step || (ready && read >= shared)) continue;
    known ??= cache.known(conversation.key(most), salt);
    const kept = ready ? work.keepAt(Math.min(shared, tokens.length - 1)) : shared;
    if (kept > read && kept - known >= cache.step) return true;
  }
  return false;
}

/** Lengths of the common prefixes of two conversations, which do not change while both wait. */
const shared = new WeakMap<Job, WeakMap<Job, number>>();

function sharedBy(job: Job, other: Job, most: number): number {
  let known = shared.get(job);
  if (known === undefined) shared.set(job, (known = new WeakMap()));
  let count = known.get(other);
  if (count === undefined) known.set(other, (count = commonLength(job.conversation, other.conversation, most)));
  return count;
}

function commonLength(one: Conversation, other: Conversation, most: number): number {
  const a = one.key(most);
  const b = other.key(most);
  const end = Math.min(a.length, b.length);
  let at = 0;
  while (at < end && a[at] === b[at]) at++;
  return at;
}
