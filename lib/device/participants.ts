/** Tells steps and drafts of pools when the submission with their ops is committed, dropped or done. */
import type { Participant } from "../ops/recorder.ts";
import type { SubmissionSource } from "./submissions.ts";

export class Participants {
  readonly #source: SubmissionSource;
  /** Participants with encoded ops that are not committed yet. */
  readonly #open = new Set<Participant>();
  /** In the order of tickets, in which submissions end. */
  #pending: { readonly ticket: number; readonly participants: readonly Participant[] }[] = [];
  /** The ticket of the last submission. */
  #last = 0;

  constructor(source: SubmissionSource) {
    this.#source = source;
  }

  /** Records that a participant has an op in the open submission. */
  join(participant: Participant): void {
    this.#open.add(participant);
  }

  /** Throws if a participant refuses the commit of the open submission. */
  expectCommittable(op: string): void {
    for (const participant of this.#open) participant.beforeCommit(op);
  }

  committed(ticket: number): void {
    if (this.#open.size > 0) {
      const participants = [...this.#open];
      this.#open.clear();
      for (const participant of participants) participant.committed(ticket);
      // Ops over no sequences do not count as work. Without other work the ticket is that of an earlier submission.
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

  /** Tells the participants of every finished submission how it ended. Costs one read if none is pending. */
  settle(): void {
    if (this.#pending.length === 0) return;
    const { status } = this.#source;
    const ended = Atomics.load(status, 0);
    let count = 0;
    while (count < this.#pending.length && ((ended - this.#pending[count]!.ticket) | 0) >= 0) count++;
    if (count === 0) return;
    // Read this after the number of finished submissions: a failure is counted before its submission.
    const failures = Atomics.load(status, 1) !== 0;
    for (const { ticket, participants } of this.#pending.splice(0, count)) {
      const failure = failures ? this.#source.failureOf(ticket, "device.wait") : undefined;
      for (const participant of participants) participant.settled(failure);
    }
  }
}
