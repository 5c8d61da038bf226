/** Sessions over tiny models: the tokens and bits of the cold run, whatever happens on the way. */
import { afterAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { GatedDeltaError } from "../../lib/errors.ts";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { LanguageModel, Session, SessionCache } from "../../lib/model.ts";
import type { GenerateOptions, Piece } from "../../lib/model.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { openSafetensors } from "../../lib/checkpoint/safetensors.ts";
import { openTiny, rejection, textOf } from "../support/models.ts";
import { coldRun, collect, textOfPieces, tokensOf } from "../support/sessions.ts";

const device = openDevice(2);
const files = scratch();
afterAll(() => device.close());

const golden = join(import.meta.dir, "../golden/models/qwen3_5-mlx-mixed");
const openGolden = () => LanguageModel.load(device, golden, { states: 8, pages: { count: 64, tokens: 16 } });
const all = { ignoreModelStops: true } as const;

async function failure(run: () => unknown): Promise<GatedDeltaError> {
  try {
    await run();
  } catch (error) {
    expect(error).toBeInstanceOf(GatedDeltaError);
    return error as GatedDeltaError;
  }
  throw new Error("nothing was thrown");
}

const first = async (pieces: AsyncGenerator<Piece>) => (await pieces.next()).value as Piece;

describe("logarithms of probabilities", () => {
  test("are those of a softmax of the logits, with drafts or without, and whatever the temperature", async () => {
    using model = await openTiny(device, { states: 4 });
    const prompt = [1, 2, 3, 1, 2, 3, 1, 2];
    for (const options of [{}, { temperature: 1.7, seed: 3 }]) {
      const cold = await coldRun(model, prompt, 12, options);
      const expected = cold.logits.map((row, i) => row[cold.tokens[i]!]! - Math.log([...row].reduce((sum, x) => sum + Math.exp(x), 0)));
      for (const drafts of [false, true]) {
        using session = model.session().append(prompt);
        const pieces = await collect(session.generate({ ...all, ...options, drafts, maxTokens: 12, logprobs: true }));
        expect(pieces.map(({ token }) => token)).toEqual(cold.tokens);
        for (const [i, { logprob }] of pieces.entries()) expect(logprob!).toBeCloseTo(expected[i]!, 9);
      }
    }
    using session = model.session().append(prompt);
    expect("logprob" in (await collect(session.generate({ ...all, maxTokens: 1 })))[0]!).toBe(false);
  });
});

describe("a session", () => {
  test("gives the golden model's greedy tokens", async () => {
    using model = await openGolden();
    using file = openSafetensors(join(golden, "expected.safetensors"));
    const numbers = (name: string) => [...new Int32Array(file.read(name).buffer)];
    for (const i of [0, 1]) {
      const [prompt, greedy] = [numbers(`prompt.${i}`), numbers(`greedy.${i}`)];
      for (const drafts of [false, true]) {
        using session = model.session().append(prompt!);
        expect(await tokensOf(session.generate({ ...all, maxTokens: greedy!.length, drafts }))).toEqual(greedy!);
      }
    }
  });

  test.each<[string, GenerateOptions]>([
    ["greedy", {}],
    ["sampled", { temperature: 0.8, topK: 20, topP: 0.9, seed: 5 }],
    ["by all options", { temperature: 1.5, topK: 40, topP: 0.95, minP: 0.02, repetitionPenalty: 1.2, seed: 2 ** 40 }],
    ["greedy with a penalty", { repetitionPenalty: 1.3 }],
  ])("gives the cold run's tokens %s, with and without drafts, in one generation or several", async (_, options) => {
    using model = await openTiny(device, { states: 6 });
    const prompt = textOf(3, 40);
    const { tokens, logits } = await coldRun(model, prompt, 48, options);
    for (const drafts of [false, true, { tokens: 3, longest: 2, shortest: 1 }]) {
      using session = model.session().append(prompt);
      const given = await tokensOf(session.generate({ ...options, ...all, maxTokens: 20, drafts }));
      given.push(...(await tokensOf(session.generate({ ...options, ...all, maxTokens: 27, drafts }))));
      expect(given).toEqual(tokens.slice(0, 47));
      expect(session.tokens).toEqual(Int32Array.from([...prompt, ...given]));
      expect(bitsEqual(await session.logits(), logits[47]!)).toBe(true);
      expect(bitsEqual(await session.logits(), logits[47]!)).toBe(true);
      expect(await tokensOf(session.generate({ ...options, ...all, maxTokens: 1 }))).toEqual(tokens.slice(47));
    }
    expect(model.freeStates).toBe(6);
  });

  test("is in the same state however its tokens were appended", async () => {
    using model = await openTiny(device, { states: 3 });
    const prompt = textOf(8, 33);
    const { logits } = await coldRun(model, prompt, 1);
    using session = model.session();
    for (const [start, end] of [[0, 1], [1, 9], [9, 9], [9, 30]] as const) session.append(prompt.slice(start, end));
    expect([session.length, session.read]).toEqual([30, 0]);
    await session.logits();
    session.append(Uint32Array.from(prompt.slice(30)));
    expect([session.length, session.read]).toEqual([33, 30]);
    expect(bitsEqual(await session.logits(), logits[0]!)).toBe(true);
  });

  test("forks go on by themselves", async () => {
    using model = await openTiny(device, { states: 12, pages: { count: 96, tokens: 8 } });
    const prompt = textOf(4, 21);
    using session = model.session().append(prompt);
    await session.logits();
    using forks = new DisposableStack();
    const seeds = Array.from({ length: 8 }, (_, i) => i);
    const options = (seed: number) => ({ temperature: 1, seed, maxTokens: 12, ...all });
    const answers = await Promise.all(seeds.map((seed) => tokensOf(forks.use(session.fork()).generate(options(seed)))));
    for (const seed of seeds) expect(answers[seed]).toEqual((await coldRun(model, prompt, 12, options(seed))).tokens);
    expect(new Set(answers.map((answer) => answer.join())).size).toBeGreaterThan(4);
    expect(session.length).toBe(21);
    // Forks between two pieces of a generation, and of tokens that were not read at all.
    const { tokens } = await coldRun(model, prompt, 12);
    const pieces = session.generate(all);
    expect((await first(pieces)).token).toBe(tokens[0]!);
    using between = session.fork();
    expect(await tokensOf(between.generate({ ...all, maxTokens: 11 }))).toEqual(tokens.slice(1));
    using unread = model.session().append(prompt).fork();
    expect(await tokensOf(unread.generate({ ...all, maxTokens: 12 }))).toEqual(tokens);
    expect((await first(pieces)).token).toBe(tokens[1]!);
    await pieces.return();
  });
});

describe("the end of a generation", () => {
  test("leaving the iterator leaves the session after the last token given out", async () => {
    using model = await openTiny(device, { states: 4 });
    const prompt = textOf(3, 40);
    const { tokens, logits } = await coldRun(model, prompt, 30);
    for (const drafts of [false, true]) {
      for (const count of [1, 2, 5, 9, 14]) {
        using session = model.session().append(prompt);
        const given: number[] = [];
        for await (const { token } of session.generate({ ...all, drafts })) {
          given.push(token);
          if (given.length === count) break;
        }
        expect(given).toEqual(tokens.slice(0, count));
        expect(session.length).toBe(prompt.length + count);
        expect(bitsEqual(await session.logits(), logits[count]!)).toBe(true);
        expect(await tokensOf(session.generate({ ...all, drafts, maxTokens: 30 - count }))).toEqual(tokens.slice(count));
      }
    }
    expect(model.freeStates).toBe(4);
  });

  test("aborting does, before, between and during steps", async () => {
    using model = await openTiny(device, { states: 4, batchTokens: 16 });
    const prompt = textOf(3, 60);
    // Far more tokens than turns: a step takes at least one turn, and guesses add a few tokens to it.
    const most = 60;
    const { tokens, logits } = await coldRun(model, prompt, most + 1);
    for (const drafts of [false, true]) {
      for (const after of [0, 1, 4]) {
        for (const turns of [0, 1, 2, 3, 5]) {
          using session = model.session().append(prompt);
          const controller = new AbortController();
          const given: number[] = [];
          const run = (async () => {
            for await (const { token } of session.generate({ ...all, drafts, signal: controller.signal })) {
              given.push(token);
              if (given.length === after) void later(turns).then(() => controller.abort(new Error("enough")));
            }
          })();
          if (after === 0) void later(turns).then(() => controller.abort(new Error("enough")));
          expect(await run.catch((error: Error) => error.message)).toBe("enough");
          expect(given).toEqual(tokens.slice(0, given.length));
          expect(session.length).toBe(prompt.length + given.length);
          expect(given.length).toBeLessThanOrEqual(most);
          expect(bitsEqual(await session.logits(), logits[given.length]!)).toBe(true);
          expect(await tokensOf(session.generate({ ...all, maxTokens: 1 }))).toEqual(tokens.slice(given.length, given.length + 1));
        }
      }
    }
    using session = model.session().append(prompt);
    const signal = AbortSignal.abort(new Error("before"));
    expect(await collect(session.generate({ signal })).catch((error: Error) => error.message)).toBe("before");
    expect(await session.logits({ signal }).catch((error: Error) => error.message)).toBe("before");
    expect(bitsEqual(await session.logits(), logits[0]!)).toBe(true);
  });

  test("stop tokens, of the model and of the caller; length", async () => {
    using model = await openGolden();
    expect([...model.config.eosTokens].sort()).toEqual([0, 2]);
    const prompt = [30, 31, 32];
    // Sampled at a high temperature, so that an end comes.
    const options = { temperature: 3, seed: 12 };
    const { tokens } = await coldRun(model, prompt, 400, options);
    const at = tokens.findIndex((token) => token === 2 || token === 0);
    expect(at).toBeGreaterThan(0);
    for (const drafts of [false, true]) {
      using session = model.session().append(prompt);
      const pieces = await collect(session.generate({ ...options, drafts }));
      expect(pieces.map(({ token }) => token)).toEqual(tokens.slice(0, at + 1));
      expect(pieces.map(({ end }) => end)).toEqual([...Array<undefined>(at).fill(undefined), "token"]);
      expect(pieces.at(-1)!.text.includes("<|")).toBe(false);
      using other = model.session().append(prompt);
      const stopped = await collect(other.generate({ ...options, ...all, stopTokens: [tokens[3]!], drafts }));
      expect(stopped.map(({ token }) => token)).toEqual(tokens.slice(0, tokens.indexOf(tokens[3]!) + 1));
      using short = model.session().append(prompt);
      const three = await collect(short.generate({ ...options, maxTokens: 3, drafts }));
      expect(three.map(({ end }) => end)).toEqual([undefined, undefined, "length"]);
    }
  });

  test("no tokens at all: one piece that says so, and nothing is read", async () => {
    using model = await openTiny(device);
    for (const drafts of [false, true]) {
      using session = model.session().append([1, 2, 3]);
      const { steps } = model;
      expect(await collect(session.generate({ ...all, drafts, maxTokens: 0 }))).toEqual([{ token: -1, text: "", end: "length", parts: [] }]);
      expect([session.length, session.read, model.steps]).toEqual([3, 0, steps]);
      expect(await tokensOf(session.generate({ ...all, drafts, maxTokens: 2 }))).toHaveLength(2);
    }
    using session = model.session().append([1]);
    await expect(collect(session.generate({ maxTokens: 0, signal: AbortSignal.abort("enough") }))).rejects.toBe("enough");
  });

  test("the last position of the model", async () => {
    using model = await openTiny(device, {}, { maxPositions: 50 });
    using session = model.session().append(textOf(1, 40));
    const pieces = await collect(session.generate({ ...all, drafts: true }));
    expect([pieces.length, pieces.at(-1)!.end, session.length]).toEqual([10, "length", 50]);
    expect((await failure(() => collect(session.generate()))).code).toBe("range");
    expect((await failure(() => session.append([1]))).message).toContain("at most 0 tokens");
    await session.logits();
  });
});

describe("text", () => {
  test("pieces together are the text of the tokens; stop strings end it", async () => {
    using model = await openGolden();
    const options = { temperature: 2, seed: 3, ...all };
    const conversation = [{ role: "user", content: "Hello" }];
    const prompt = model.text.chat(conversation);
    const { tokens } = await coldRun(model, prompt, 60, options);
    const whole = model.text.tokenizer.decode(tokens);
    for (const drafts of [false, true]) {
      using session = model.session().chat(conversation);
      const pieces = await collect(session.generate({ ...options, drafts, maxTokens: 60 }));
      expect(textOfPieces(pieces)).toBe(whole);
      for (const stop of [whole.slice(20, 22), whole.slice(30, 36), [whole.slice(12, 13), "never there"]]) {
        using stopped = model.session().append(prompt);
        const given = await collect(stopped.generate({ ...options, drafts, maxTokens: 60, stop }));
        const string = typeof stop === "string" ? stop : stop[0]!;
        expect(textOfPieces(given)).toBe(whole.slice(0, whole.indexOf(string)));
        expect(given.at(-1)!.end).toBe("string");
        // The session has the token that completes the stop string.
        expect(stopped.length).toBe(prompt.length + given.length);
        expect(model.text.tokenizer.decode(stopped.tokens.subarray(prompt.length))).toContain(string);
      }
    }
    using appended = model.session().append("Hello");
    expect([...appended.tokens]).toEqual(model.text.encode("Hello"));
    expect(await tokensOf(model.session().append("Hello").generate({ sampling: "model", seed: 1, maxTokens: 5, ...all }))).toEqual(
      (await coldRun(model, model.text.encode("Hello"), 5, { temperature: 0.7, topP: 0.8, topK: 20, seed: 1 })).tokens,
    );
  });

  test("an answer goes on within a character and within a stop string, also outside of messages", async () => {
    using model = await openGolden();
    const options = { temperature: 2, seed: 3, maxTokens: 60, ...all };
    const prompt = model.text.encode("Hello");
    using asked = model.session().append(prompt);
    const whole = textOfPieces(await collect(asked.fork().generate(options)));
    const stop = whole.slice(30, 36);
    expect(whole.isWellFormed() && whole.includes("\ufffd")).toBe(true); // a random model's bytes
    for (const drafts of [false, true]) for (let most = 1; most < 40; most++) {
      using session = asked.fork();
      const first: Piece[] = [];
      for await (const piece of session.generate({ ...options, drafts, stop })) if (first.push(piece) === most || piece.end !== undefined) break;
      if (first.at(-1)!.end !== undefined) break;
      using unstopped = session.fork();
      expect(textOfPieces([...first, ...(await collect(session.generate({ ...options, stop })))])).toBe(whole.slice(0, whole.indexOf(stop)));
      expect(textOfPieces([...first, ...(await collect(unstopped.generate({ ...options, maxTokens: 60 - most })))])).toBe(whole);
    }
  });

  test("an incomplete character at the end of an answer is one U+FFFD, and the next answer completes it", async () => {
    using model = await openGolden();
    const { tokenizer } = model.text;
    const prompt = model.text.encode("Hello");
    const path = files.newPath("cut");
    let [completed, incomplete, stopped] = [0, 0, 0];
    for (let seed = 0; seed < 120; seed++) {
      const options = { temperature: 2, seed, ...all };
      using session = model.session().append(prompt);
      const first = await session.complete({ ...options, maxTokens: 3 });
      await session.save(path);
      using loaded = await Session.load(model, path);
      using fork = session.fork();
      for (const one of [session, loaded, fork]) {
        const { text } = await one.complete({ ...options, maxTokens: 3 });
        const whole = tokenizer.decode(one.tokens.slice(prompt.length));
        const isCompleted = !whole.startsWith(first.text);
        if (isCompleted) completed++;
        else if (first.text.endsWith("\ufffd")) incomplete++;
        expect(first.text + text).toBe(isCompleted ? first.text + whole.slice(first.text.length - 1) : whole);
        expect(textOfPieces(await collect(one.generate({ maxTokens: 0 })))).toBe("");
      }

      // After an end token, a new text begins.
      using other = model.session().append(prompt);
      const { text, tokens } = await other.complete({ ...options, maxTokens: 4, stopTokens: [first.tokens[2]!] });
      const rest = await other.complete({ ...options, maxTokens: 3 });
      expect([text, rest.text]).toEqual([tokenizer.decode(tokens.slice(0, -1)), tokenizer.decode(rest.tokens)]);
      if (text.endsWith("\ufffd")) stopped++;
    }
    expect(Math.min(completed, incomplete, stopped)).toBeGreaterThan(0);
  });

  test("without a tokenizer, token ids work", async () => {
    using model = await openTiny(device);
    using session = model.session().append([1, 2, 3]);
    const pieces = await collect(session.generate({ maxTokens: 3, ...all }));
    expect(pieces.map(({ text }) => text)).toEqual(["", "", ""]);
    for (const run of [() => session.append("text"), () => session.chat([]), () => collect(session.generate({ stop: "a" }))]) {
      expect((await failure(run)).code).toBe("unsupported");
    }
    expect(session.length).toBe(6);
  });
});

describe("what is refused", () => {
  test("two runs at once, and changes during one", async () => {
    using model = await openTiny(device);
    using session = model.session().append(textOf(1, 5));
    const pieces = session.generate(all);
    const other = session.generate(all);
    await first(pieces);
    const runs = [() => other.next(), () => session.logits(), () => session.append([1]), () => collect(session.generate())];
    for (const run of runs) expect((await failure(run)).message).toContain("a generation of this session is running");
    const next = pieces.next();
    expect((await failure(() => session.fork())).code).toBe("state");
    await next;
    await pieces.return();
    const reading = session.logits();
    expect((await failure(() => session.logits())).message).toContain("reading of this session");
    expect((await failure(() => session.fork())).code).toBe("state");
    await reading;
    expect((await tokensOf(session.generate({ maxTokens: 2, ...all }))).length).toBe(2);
  });

  test("a typed array of ids is read by index: an iterator of its own changes nothing", async () => {
    using model = await openTiny(device);
    using session = model.session();
    session.append(new (class extends Int32Array { override [Symbol.iterator]() { return [10 ** 6].values(); } })([3]) as never);
    expect([...session.tokens]).toEqual([3]);
  });

  test("wrong arguments, and sessions that are over", async () => {
    using model = await openTiny(device);
    using other = await openTiny(device);
    using session = model.session();
    using cache = other.cache({ bytes: 1 });
    const wrong: [() => unknown, string][] = [
      [() => model.session({ cache } as never), "a cache of this model"],
      [() => model.session({ cache: {} } as never), "a cache of this model"],
      [() => model.session({ salt: 1 } as never), "salt"],
      [() => model.session({ whenFull: "never" } as never), "whenFull"],
      [() => model.session(null as never), "options"],
      [() => model.session({ other: 1 } as never), "other"],
      [() => model.cache({} as never), "bytes"],
      [() => model.cache({ bytes: 1, ratio: 1 }), "ratio"],
      [() => new (Session as never as new () => unknown)(), "model.session()"],
      [() => new (SessionCache as never as new () => unknown)(), "model.cache"],
      [() => session.append([53]), "0..52"],
      [() => session.append([-1]), "content[0]"],
      [() => session.append([1, 0.5]), "content[1]"],
      [() => session.append({} as never), "content"],
      [() => session.append(new (class extends Int32Array { override get length() { return Infinity as never; } })(1)), "content"],
      [() => session.append(new (class extends Int32Array { override get length() { return 2 as never; } })(1)), "content[1]"],
      [() => session.append(5 as never), "content"],
      [() => session.append(textOf(1, 3000)), "at most 2048"],
      [() => session.generate({ temperature: -1 }), "temperature"],
      [() => session.generate({ stop: "" }), "stop"],
      [() => session.generate({ stop: ["a", ""] }), "stop"],
      [() => session.generate({ stopTokens: [-1] }), "stopTokens"],
      [() => session.generate({ drafts: { tokens: 0 } }), "drafts"],
      ...[{ longest: 0 }, { window: 0 }, { shortest: 0.5 }, { window: 2 ** 30 }].map((drafts): [() => unknown, string] => [() => session.generate({ drafts }), "drafts"]),
      [() => session.generate({ signal: {} as never }), "signal"],
      [() => session.generate({ maxTokens: 0.5 }), "maxTokens"],
      [() => session.generate({ other: 1 } as never), "other"],
      [() => collect(session.generate()), "append some first"],
      [() => session.logits(), "append some first"],
      [() => session.logits({ signal: 1 } as never), "signal"],
      [() => collect(session.append([1]).generate({ stopTokens: [53] })), "stopTokens[0]"],
      [() => collect(session.generate({ drafts: { longest: 1, shortest: 2 } })), "drafts.shortest: expected an integer in 1..longest, got 2"],
    ];
    for (const [run, words] of wrong) expect((await failure(run)).message).toContain(words);
    expect(session.length).toBe(1);
    session[Symbol.dispose]();
    for (const run of [() => session.append([1]), () => session.generate(), () => session.logits(), () => session.fork(), () => session.read]) {
      expect((await failure(run)).code).toBe("disposed");
    }
    const late = model.session().append([1]);
    model[Symbol.dispose]();
    for (const run of [() => late.generate(), () => model.session(), () => model.cache({ bytes: 1 })]) expect((await failure(run)).code).toBe("disposed");
  });

  test("disposing the model, or closing its device, ends what sessions do and what waits for a state", async () => {
    for (const end of ["model", "device"] as const) {
      using own = openDevice();
      using model = await openTiny(own, { states: 1 });
      const runs = Array.from({ length: 3 }, (_, i) => collect(model.session().append(textOf(i, 30)).generate(all)));
      const reading = model.session().append(textOf(3, 30)).logits();
      const ends = [...runs, reading].map((run) => failure(() => run));
      await later(3);
      if (end === "model") model[Symbol.dispose]();
      else own.close();
      expect((await Promise.all(ends)).map(({ code }) => code)).toEqual(Array(4).fill("disposed"));
    }
  });

  test("disposing a session ends what it does", async () => {
    using model = await openTiny(device, { states: 2 });
    for (const turns of [0, 1, 2, 3]) {
      const session = model.session().append(textOf(1, 30));
      const run = collect(session.generate(all));
      await later(turns);
      session[Symbol.dispose]();
      expect((await failure(() => run)).code).toBe("disposed");
      expect(model.freeStates).toBe(2);
    }
  });
});

/** After some turns of the event loop. */
async function later(turns: number): Promise<void> {
  for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
}

test("hidden states of the last token: read when they are asked for, kept until there is another token, shared by forks", async () => {
  using model = await openTiny(device);
  using sequence = model.sequence();
  const [cold] = await model.run([{ sequence, tokens: textOf(4, 20), hidden: "last" }]);
  const expected = cold!.hidden.slice();
  using session = model.session().append(textOf(4, 20));
  expect(bitsEqual(await session.hidden(), expected)).toBe(true);
  using fork = session.fork();
  const before = model.steps;
  expect(bitsEqual(await fork.hidden(), expected)).toBe(true);
  await session.logits();
  expect(model.steps).toBe(before);
  // A token that was read only for its logits is read again.
  using other = model.session().append(textOf(4, 20));
  await other.logits();
  expect(bitsEqual(await other.hidden(), expected)).toBe(true);
  session.append([1]);
  expect(bitsEqual(await session.hidden(), expected)).toBe(false);
  using empty = model.session();
  expect((await rejection(empty.hidden())).code).toBe("state");
  expect((await rejection(session.hidden({ signal: 1 } as never))).code).toBe("invalid-argument");
});
