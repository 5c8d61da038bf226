/** An answer of a session in a schedule: given to the end, or left, aborted or disposed of, by a consumer that may be slow. */
import type { GenerateOptions, Piece } from "../../lib/model.ts";
import { ofRole, plain } from "../support/roles.ts";
import type { Actor } from "./actor.ts";
import type { Request } from "./request.ts";

/**
 * Steps that may run between the requested end and the end of a waiting request: one that is under way, and one that
 * ends at the same time.
 */
const mostStepsToEnd = 2;

/** How a request ends, which may be before it has all its tokens. */
type Fate = "ends" | "left" | "returned" | "aborted" | "disposed";

/** A signal that is aborted at some point, or never. Call `request` with the request that it ends. */
export function aborting(actor: Actor): { readonly signal: AbortSignal; readonly request: (request: Request) => void } {
  const controller = new AbortController();
  const aborts = actor.random.below(5) === 0;
  const steps = actor.random.below(10);
  const request = (of: Request): void => {
    if (aborts) void endLater(actor, of, steps, () => controller.abort(actor.in.enough));
  };
  return { signal: controller.signal, request };
}

/** Ends a request after some steps; fails if it then still waits for steps of other requests. */
async function endLater({ in: { watch, pressed: { model }, failed } }: Actor, request: Request, steps: number, end: () => void): Promise<void> {
  await watch.pause(steps);
  if (!watch.has(request)) return;
  const before = model.steps;
  const waits = request.asked > 0;
  end();
  if (!waits) return;
  await watch.settled(request);
  const more = model.steps - before;
  if (more > mostStepsToEnd) failed(new Error(`${request.name} ends ${more} steps after it was to`));
}

export class Answer {
  readonly #of: Actor;
  readonly #options: GenerateOptions;
  readonly #fate: Fate;
  /** The number of tokens or steps after which the request ends in this way. */
  readonly #after: number;
  /** The pace at which the consumer takes pieces. */
  readonly #pace: "at once" | "slowly" | "with a long pause";
  /** Tokens by {@link ofRole}. */
  readonly #given: number[] = [];
  readonly #logprobs: number[] = [];
  #end: Piece["end"];

  constructor(of: Actor) {
    const { random } = of;
    this.#of = of;
    this.#options = of.anyOptions();
    this.#fate = ([["left", 2], ["returned", 2], ["aborted", 2], ["disposed", 1], ["ends", 9]] as const).flatMap(([fate, times]) => Array<Fate>(times).fill(fate))[random.below(16)]!;
    this.#after = random.below(8);
    this.#pace = random.below(of.in.longPauses ? 4 : 64) === 0 ? "with a long pause" : random.below(4) === 0 ? "slowly" : "at once";
  }

  async give(): Promise<void> {
    const of = this.#of;
    const { watch } = of.in;
    const before = [...of.tokens];
    const room = before.length + (this.#options.maxTokens ?? 1);
    const controller = new AbortController();
    const request = watch.begin(`${of.name}, which gives ${this.#options.maxTokens ?? "any number of"} tokens after ${before.length}`, of.session, false, of.beginning);
    const state = of.state();
    const { stopTokens: _, ignoreModelStops: _all, ...told } = this.#options;
    const fate = this.#fate === "ends" ? "" : `, ${this.#fate} after ${this.#after}`;
    of.in.note(of.name, `request ${request.number}: after ${before.length} ${JSON.stringify(told)}${fate}, ${this.#pace}`);
    if (this.#fate === "aborted") void endLater(of, request, this.#after, () => controller.abort(of.in.enough));
    if (this.#fate === "disposed") void endLater(of, request, this.#after, () => of.session[Symbol.dispose]());
    try {
      const pieces = of.session.generate({ ...this.#options, signal: controller.signal });
      await this.#take(pieces, request);
      if (room > of.in.pressed.capacity) throw new Error(`${request.name} should be refused: that is above the capacity`);
      this.#expectEnding(before.length);
    } catch (error) {
      of.expectEnd(error, room, state);
      if (room > of.in.pressed.capacity && this.#given.length > 0) throw new Error(`${of.name} was refused after ${this.#given.length} tokens`, { cause: error });
    } finally {
      watch.end(request);
    }
    of.in.note(of.name, `request ${request.number} gave ${this.#given.length} tokens`);
    of.in.claims.push({ who: of.name, kind: "answer", tokens: before, given: this.#given, options: this.#options, logprobs: this.#logprobs });
    of.in.count("tokens given", this.#given.length);
    if (this.#options.drafts !== false) of.in.count("tokens given with drafts", this.#given.length);
  }

  /** Takes pieces until there are no more, or the answer is left. */
  async #take(pieces: AsyncGenerator<Piece, void, void>, request: Request): Promise<void> {
    const { in: { watch }, random, session } = this.#of;
    for (;;) {
      const next = watch.ask(request, pieces.next());
      if (this.#fate === "returned" && this.#given.length >= this.#after % 4) return this.#return(pieces, next, request);
      const { done, value } = await next;
      if (done === true) return;
      this.#took(value, request);
      if (this.#fate === "left" && this.#given.length > this.#after % 6) return void (await pieces.return());
      if (this.#pace === "slowly" && random.below(3) === 0) await watch.pause(random.below(6));
      if (this.#pace === "with a long pause" && this.#given.length === 2) {
        request.exempt = true; // from then on, others go before it
        this.#of.in.count("long pauses");
        await watch.pause(Infinity);
      }
      if (session.disposed || random.below(16) > 0) continue;
      if (random.below(2) === 0) this.#of.fork();
      else {
        request.exempt = true; // it waits for the file
        await this.#of.save();
      }
    }
  }

  /** Leaves while waiting for the next piece. */
  async #return(pieces: AsyncGenerator<Piece, void, void>, next: Promise<IteratorResult<Piece, void>>, request: Request): Promise<void> {
    const { in: { watch, count, pressed: { model } }, random } = this.#of;
    next.catch(() => {}); // handled below
    await watch.pause(random.below(6));
    const before = model.steps;
    await watch.ask(request, pieces.return());
    const more = model.steps - before;
    if (more > mostStepsToEnd) throw new Error(`${request.name} returns after ${more} steps`);
    const { done, value } = await watch.ask(request, next);
    if (done !== true) this.#took(value, request);
    count("left while waiting");
  }

  #took({ token, end, logprob }: Piece, request: Request): void {
    request.gave = true;
    const marked = ofRole(this.#of.in.pressed.model, "generated", [token]);
    this.#given.push(...marked);
    this.#of.tokens.push(...marked);
    if (logprob !== undefined) this.#logprobs.push(logprob);
    if (this.#end !== undefined) throw new Error(`${request.name} gives a piece after its last one`);
    this.#end = end;
  }

  /** Expects the right end of an answer that was not left. */
  #expectEnding(before: number): void {
    const { in: { pressed: { capacity } }, name } = this.#of;
    const { maxTokens = Infinity, stopTokens = [] } = this.#options;
    if (this.#fate === "left" || this.#fate === "returned") return;
    const most = Math.min(maxTokens, capacity - before);
    const expected = stopTokens.includes(plain(this.#given).at(-1)!) ? "token" : this.#given.length === most ? "length" : undefined;
    if (expected === undefined || this.#end !== expected) throw new Error(`${name} gave ${this.#given.length} of ${most} tokens, and ends with ${this.#end}`);
    if (maxTokens === Infinity && expected === "length") this.#of.in.count("answers to the capacity");
  }
}
