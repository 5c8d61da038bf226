/** Waits for a device's work that leave the event loop free: the device writes to a socket that the loop listens to. */
import type { FdSocketOptions, Socket } from "bun";

/** The longest wait in milliseconds: a socket that other code closes by mistake delays the end of a wait but does not prevent it. */
const longest = 1000;
/** Milliseconds of a sleep where there is no socket. */
const withoutSocket = 1;

/** A device's notifications. It has no reference to the device, which may be collected. */
export class Notifier {
  readonly #waits = new Set<() => void>();
  /** Resolves to undefined if there is no socket, or no longer one. */
  #socket: Promise<Socket | undefined> | undefined;

  /**
   * Resolves when the device notifies, when a signal is aborted, when the notifier is closed, or after a time. Keeps the process
   * alive until then.
   *
   * @param make gives the descriptor of a native socket; called once.
   * @param ask asks the device for a notification; false if there is nothing to wait for.
   * @param ms the longest wait; at most {@link longest} is taken.
   */
  async wait(make: () => number, ask: () => boolean, ms: number, signal: AbortSignal | undefined): Promise<void> {
    const socket = await (this.#socket ??= this.#connect(make));
    if (socket === undefined) return Bun.sleep(Math.min(ms, withoutSocket));
    if (!ask()) return;
    await new Promise<void>((resolve) => {
      const end = () => {
        this.#waits.delete(end);
        clearTimeout(timer);
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const timer = setTimeout(end, Math.min(ms, longest)); // it keeps the process alive, too
      signal?.addEventListener("abort", end);
      this.#waits.add(end);
    });
  }

  /** Ends all waits. */
  close(): void {
    void this.#socket?.then((socket) => socket?.terminate());
    this.#end();
  }

  /** Systems limit the number of sockets: without one, waits are sleeps. */
  async #connect(make: () => number): Promise<Socket | undefined> {
    try {
      const options: FdSocketOptions = { fd: make(), socket: { data: this.#wake, close: this.#end, error: this.#end } };
      const socket = await Bun.connect(options as never); // its types lack these options
      socket.unref();
      return socket;
    } catch {
      return undefined;
    }
  }

  readonly #wake = (): void => {
    for (const end of [...this.#waits]) end();
  };

  readonly #end = (): void => {
    this.#socket = Promise.resolve(undefined);
    this.#wake();
  };
}
