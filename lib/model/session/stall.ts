import type { GatedDeltaError } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import type { Room } from "./room.ts";

/** How long sessions wait while nothing runs before a warning explains why. */
const warnMilliseconds = 2000;

/**
 * Warns once when sessions wait and none runs, because the memory is held by the caller's sequences, by sessions that are
 * being saved, or by sessions whose copies do not fit into `swap`.
 */
export class Stall {
  readonly #model: LanguageModel;
  readonly #room: Room;
  #since: number | undefined;
  #warned = false;

  constructor(model: LanguageModel, room: Room) {
    this.#model = model;
    this.#room = room;
  }

  /** Called when a step runs or nothing waits. */
  over(): void {
    this.#since = undefined;
    this.#warned = false;
  }

  /** Called when sessions wait and nothing runs. */
  waits(count: number, full: GatedDeltaError): void {
    this.#since ??= performance.now();
    if (this.#warned || performance.now() - this.#since < warnMilliseconds) return;
    this.#warned = true;
    const { states, freeStates, pages, freePages } = this.#model;
    const held = this.#room.held;
    const others = `${states - freeStates - held.states} states and ${Math.max(0, pages - freePages - held.pages)} pages`;
    const requests = `${count} request${count === 1 ? "" : "s"} of sessions wait${count === 1 ? "s" : ""}, and nothing runs`;
    process.emitWarning(
      `${requests}. Sequences of model.sequence() and caches have ${others}, sessions that can't give theirs back ${held.states} and ${held.pages}: ` +
        `dispose sequences, or load the model with more. ${full.message}`,
      { code: "GATED_DELTA_WAIT", type: "GatedDeltaWarning" },
    );
  }
}
