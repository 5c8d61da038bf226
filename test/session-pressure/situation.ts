/** The objects that all actors of a schedule share. */
import type { SessionCache } from "../../lib/model.ts";
import { Random } from "../support/random.ts";
import type { Counts } from "../support/schedules.ts";
import type { Actor } from "./actor.ts";
import type { Claim } from "./claims.ts";
import type { Pressed } from "./models.ts";
import type { Watch } from "./watch.ts";

/** No schedule has more sessions, including forks and those from files. */
const mostSessions = 60;

export class Situation {
  readonly pressed: Pressed;
  readonly watch: Watch;
  readonly cache: SessionCache | undefined;
  /** The least distance between two positions that the cache keeps. */
  readonly cacheStep: number;
  /** Beginnings that texts share. */
  readonly stems: readonly (readonly number[])[];
  /** The folder of saved sessions. */
  readonly folder: string;
  /** Whether many consumers pause for a long time. */
  readonly longPauses: boolean;
  readonly claims: Claim[] = [];
  readonly lines: string[];
  /** The reason given by aborted signals. */
  readonly enough = new Error("enough");
  /** Ends the schedule. */
  readonly failed: (error: unknown) => void;
  readonly spawn: (actor: Actor) => void;
  readonly #counts: Counts;
  /** The number of the caller's sequences. */
  held = 0;
  #sessions = 0;
  #runs: Promise<unknown> = Promise.resolve();

  constructor(parts: Pick<Situation, "pressed" | "watch" | "cache" | "cacheStep" | "stems" | "folder" | "longPauses" | "failed" | "spawn" | "lines"> & { readonly counts: Counts }) {
    this.pressed = parts.pressed;
    this.watch = parts.watch;
    this.cache = parts.cache;
    this.cacheStep = parts.cacheStep;
    this.stems = parts.stems;
    this.folder = parts.folder;
    this.longPauses = parts.longPauses;
    this.failed = parts.failed;
    this.spawn = parts.spawn;
    this.lines = parts.lines;
    this.#counts = parts.counts;
  }

  readonly count = (what: string, by = 1): void => {
    this.#counts.add(what, by);
  };

  note(who: string, line: string): void {
    this.lines.push(`step ${this.pressed.model.steps}: ${who} ${line}`);
  }

  newName(): string {
    return `s${this.#sessions++}`;
  }

  /** Whether there may be another session. */
  more(): boolean {
    return this.#sessions < mostSessions;
  }

  /** Random numbers for one more actor, independent of the others' progress. */
  newRandom(random: Random): Random {
    return new Random(random.below(2 ** 31));
  }

  /** Few different tokens, so that guesses have something to find. */
  anyTokens(random: Random, count: number): number[] {
    return Array.from({ length: count }, () => random.below(random.below(2) === 0 ? 6 : 50));
  }

  /** One run of the caller's at a time: a second one would be refused. */
  inTurn<T>(run: () => Promise<T>): Promise<T> {
    const done = this.#runs.then(run);
    this.#runs = done.catch(() => {});
    return done;
  }
}
