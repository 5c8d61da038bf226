/**
 * Keeps memory of the caller reachable while pending work uses it. The native side keeps the library's own memory alive,
 * but not memory that it borrows.
 */

/** Owners of borrowed memory, by the submission that uses them. */
export class Pins {
  /** Every instance with pinned owners: they stay reachable even if the device object is collected. */
  static readonly #all = new Set<Pins>();

  /** Owners for ops that were encoded but not committed. */
  #open: unknown[] = [];
  #pending: { readonly ticket: number; readonly owners: readonly unknown[] }[] = [];

  /** Pins an owner for the open submission. */
  add(owner: unknown): void {
    if (!this.#open.includes(owner)) this.#open.push(owner);
  }

  /** The open submission was committed; `planOwners` are those of a plan that it replays. */
  commit(ticket: number, planOwners: readonly unknown[] = []): void {
    if (this.#open.length + planOwners.length === 0) return;
    this.#pending.push({ ticket, owners: [...this.#open, ...planOwners] });
    this.#open = [];
    Pins.#all.add(this);
  }

  /** The open submission was dropped. */
  discard(): void {
    if (this.#open.length > 0) this.#open = [];
  }

  /** Releases the owners of finished submissions. */
  release(isFinished: (ticket: number) => boolean): void {
    if (this.#pending.length === 0) return;
    this.#pending = this.#pending.filter(({ ticket }) => !isFinished(ticket));
    if (this.#pending.length === 0) Pins.#all.delete(this);
  }

  /** Releases all owners when no work is pending. */
  clear(): void {
    this.#open = [];
    this.#pending = [];
    Pins.#all.delete(this);
  }
}
