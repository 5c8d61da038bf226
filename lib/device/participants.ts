/** Steps and drafts of pools, by the submission that their ops are in: told when it is committed, dropped or done. */
import type { Participant } from "../ops/recorder.ts";
import type { SubmissionSource } from "./submissions.ts";

export class Participants {
  readonly #source: SubmissionSource;
  /** Those with ops that were encoded and not committed. */
  readonly #open = new Set<Participant>();
  /** In the order of the tickets, which is the order in which submissions end. */
  #pending: { readonly ticket: number; readonly participants: readonly Participant[] }[] = [];
  /** The ticket of the last submission. */
  #last = 0;

  constructor(source: SubmissionSource) {
    this.#source = source;
  }

  /** Notes that a participant has an op in the open submission. */
  join(participant: Participant): void {
    this.#open.add(participant);
  }

  /** Throws where a participant refuses that the open submission is committed. */
  expectCommittable(op: string): void {
    for (const participant of this.#open) participant.beforeCommit(op);
  }

  committed(ticket: number): void {
    if (this.#open.size > 0) {
      const participants = [...this.#open];
      this.#open.clear();
      for (const participant of participants) participant.committed(ticket);
      // Ops over no sequences are no work. Where there was no other, the ticket is an earlier submission's.
      if (ticket === this.#last) for (const participant of participants) participant.settled(undefined);
      else this.#pending.push({ ticket, participants });
    }
    this.#last = ticket;
    this.settle();
  }

  discarded(): void {
    if (this.#open.size === 0) return;
    const participants = [...this.#open];
    this.#open.clear();
    for (const participant of participants) participant.discarded();
  }

  /** Tells the participants of every submission that has ended how it ended. Costs one read where none is pending. */
  settle(): void {
    if (this.#pending.length === 0) return;
    const { status } = this.#source;
    const ended = Atomics.load(status, 0);
    let count = 0;
    while (count < this.#pending.length && ((ended - this.#pending[count]!.ticket) | 0) >= 0) count++;
    if (count === 0) return;
    // Read after the number of ended submissions: a failure is counted before the submission that it belongs to.
    const failures = Atomics.load(status, 1) !== 0;
    for (const { ticket, participants } of this.#pending.splice(0, count)) {
      const failure = failures ? this.#source.failureOf(ticket, "device.wait") : undefined;
      for (const participant of participants) participant.settled(failure);
    }
  }
}
