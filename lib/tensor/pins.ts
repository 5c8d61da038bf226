/**
 * Keeps memory of the caller's reachable while pending work uses it. The native side holds on to the library's own
 * memory by itself, but can't for memory that it only borrows.
 */

/** Owners by the submission that uses them. */
export class Pins {
  /** Everything that is pinned anywhere: reachable even when the device object that pinned it no longer is. */
  static readonly #all = new Set<Pins>();

  /** Of ops that were encoded but not committed. */
  #open: unknown[] = [];
  #pending: { readonly ticket: number; readonly owners: readonly unknown[] }[] = [];

  /** Pins an owner for the open submission. */
  add(owner: unknown): void {
    if (!this.#open.includes(owner)) this.#open.push(owner);
  }

  /** The open submission was committed. */
  commit(ticket: number, further: readonly unknown[] = []): void {
    if (this.#open.length + further.length === 0) return;
    this.#pending.push({ ticket, owners: [...this.#open, ...further] });
    this.#open = [];
    Pins.#all.add(this);
  }

  /** The open submission was dropped. */
  discard(): void {
    if (this.#open.length > 0) this.#open = [];
  }

  /** Lets go of what submissions up to `ticket` used. */
  release(isFinished: (ticket: number) => boolean): void {
    if (this.#pending.length === 0) return;
    this.#pending = this.#pending.filter(({ ticket }) => !isFinished(ticket));
    if (this.#pending.length === 0) Pins.#all.delete(this);
  }

  /** Lets go of everything: no work is pending any more. */
  clear(): void {
    this.#open = [];
    this.#pending = [];
    Pins.#all.delete(this);
  }
}
