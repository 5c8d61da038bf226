/**
 * Roles of tokens: sessions give the model each token with its original role, however it is read, and read again. On Metal the
 * model multiplies prompts by matrices, so that its numbers depend on roles; on the CPU, a stand-in replaces a generated token by
 * the next one.
 */
import { describe, expect, test } from "bun:test";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { Session } from "../../lib/model.ts";
import type { LanguageModel, LoadModelOptions } from "../../lib/model.ts";
import type { Entry } from "../../lib/model/batch.ts";
import { Runner } from "../../lib/model/runner.ts";
import { Conversation } from "../../lib/model/session/conversation.ts";
import { keyOf, roleAt } from "../../lib/model/session/roles.ts";
import { TokenRanges } from "../../lib/model/session/token-ranges.ts";
import { onEachBackend } from "../support/backends.ts";
import { scratch } from "../support/files.ts";
import { openTiny, rejection, textOf } from "../support/models.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";
import { coldRun, tokensOf } from "../support/sessions.ts";

const files = scratch();
const all = { ignoreModelStops: true } as const;
const vocabulary = 53;

onEachBackend("roles", ({ device }) => {
const onMetal = device.backend === "metal";

/** Until the result is disposed of, numbers depend on roles, and sessions know it. */
function byRole(): Disposable {
  const stack = new DisposableStack();
  if (onMetal) return stack;
  const original = Object.getOwnPropertyDescriptor(Conversation.prototype, "byRole")!;
  Object.defineProperty(Conversation.prototype, "byRole", { get: () => true, configurable: true });
  stack.defer(() => Object.defineProperty(Conversation.prototype, "byRole", original));
  stack.use(replace(Runner.prototype, "run", (run) => function (this: Runner, op: string, entries: readonly Entry[]) {
    const changed = entries.map((entry) => {
      const { tokens, role, drafts } = entry;
      const certain = tokens.length - drafts;
      return { ...entry, tokens: tokens.map((token, i) => (role === "generated" || i >= certain ? (token + 1) % vocabulary : token)) };
    });
    return (run as (this: Runner, op: string, entries: readonly Entry[]) => unknown).call(this, op, changed);
  } as Method));
  return stack;
}

/** The last logits of tokens that are read in runs of one role each. */
async function logitsOf(model: LanguageModel, runs: readonly (readonly ["read" | "generated", readonly number[]])[]): Promise<Float32Array> {
  using sequence = model.sequence();
  let last = new Float32Array();
  for (const [role, tokens] of runs) {
    const [result] = await model.run([{ sequence, tokens, role }]);
    last = result!.logits.slice() as Float32Array<ArrayBuffer>;
  }
  return last;
}

const how = onMetal ? "matrix" : "exact";
const roomy: Partial<LoadModelOptions> = { states: 8, pages: { count: 80, tokens: 8 }, prompts: how };

describe("an entry's role", () => {
  test("changes no bit of the exact kernels", async () => {
    using model = await openTiny(device);
    const [a, b] = [textOf(1, 9), textOf(2, 5)];
    const read = await logitsOf(model, [["read", [...a, ...b]]]);
    expect(bitsEqual(await logitsOf(model, [["read", a], ["generated", b]]), read)).toBe(true);
  });

  test("is one of two words", async () => {
    using model = await openTiny(device);
    using sequence = model.sequence();
    const error = await rejection(model.run([{ sequence, tokens: [1], role: "prompt" as never }]));
    expect([error.argument, error.expected, error.received]).toEqual(["batch[0].role", '"read" | "generated"', '"prompt"']);
    expect(sequence.tokens).toBe(0);
  });
});

describe("where numbers depend on roles", () => {
  const [prompt, more] = [textOf(1, 21), textOf(2, 13)];

  test("the model of these tests has other numbers for other roles", async () => {
    using _roles = byRole();
    using model = await openTiny(device, roomy);
    const read = await logitsOf(model, [["read", [...prompt, ...more]]]);
    expect(bitsEqual(await logitsOf(model, [["read", prompt], ["generated", more]]), read)).toBe(false);
  });

  test.each([
    ["whole", {}, {}],
    ["in pieces", { batchTokens: 7, promptTokens: 3 }, {}],
    ["with guesses", {}, { drafts: true }],
  ] as const)("an answer, a further prompt and a further answer are those of the cold run: %s", async (_, options, generate) => {
    using _roles = byRole();
    using model = await openTiny(device, { ...roomy, ...options });
    const { tokens } = await coldRun(model, prompt, 30);
    using session = model.session().append(prompt);
    expect(await tokensOf(session.generate({ ...all, ...generate, maxTokens: 30 }))).toEqual(tokens);
    using fork = session.fork();
    session.append(more);
    const then = await logitsOf(model, [["read", prompt], ["generated", tokens], ["read", more]]);
    expect(bitsEqual(await session.logits(), then)).toBe(true);
    // Everything is read again, since hidden states are not kept, and in a fork that reads the prompt in other pieces.
    await session.hidden();
    expect(bitsEqual(await session.logits(), then)).toBe(true);
    expect(bitsEqual(await fork.append(more.slice(0, 4)).append(more.slice(4)).logits(), then)).toBe(true);
  });

  test("sessions that gave their states back read again by role", async () => {
    using _roles = byRole();
    using large = await openTiny(device, roomy);
    using model = await openTiny(device, { states: 1, pages: { count: 24, tokens: 4 }, prompts: how });
    const prompts = [textOf(3, 9), textOf(4, 12), textOf(5, 7)];
    const cold: { readonly tokens: readonly number[]; readonly then: Float32Array }[] = [];
    for (const one of prompts) {
      const { tokens } = await coldRun(large, one, 12);
      cold.push({ tokens, then: await logitsOf(large, [["read", one], ["generated", tokens], ["read", more]]) });
    }
    const sessions = prompts.map((one) => model.session().append(one));
    for (let turn = 0; turn < 12; turn++) {
      for (const [i, session] of sessions.entries()) expect(await tokensOf(session.generate({ ...all, maxTokens: 1 }))).toEqual([cold[i]!.tokens[turn]!]);
    }
    for (const [i, session] of sessions.entries()) expect(bitsEqual(await session.append(more).logits(), cold[i]!.then)).toBe(true);
    for (const session of sessions) session[Symbol.dispose]();
  });

  test("a cache gives an answer back to the conversation, not to a prompt with the same tokens", async () => {
    using _roles = byRole();
    using model = await openTiny(device, roomy);
    using cache = model.cache({ bytes: 1e9, step: 4 });
    using first = model.session({ cache }).append(prompt);
    const answer = await tokensOf(first.generate({ ...all, maxTokens: 16 }));
    const asked = await logitsOf(model, [["read", [...prompt, ...answer, ...more]]]);
    using second = model.session({ cache }).append([...prompt, ...answer]).append(more);
    expect(bitsEqual(await second.logits(), asked)).toBe(true);
    expect(second.usage.cachedTokens).toBeLessThan(prompt.length);
    // The conversation itself finds the entry after it has lost its state.
    const path = files.newPath();
    await first.save(path);
    using again = await Session.load(model, path, { cache, trust: true });
    again.append(more);
    await again.hidden();
    const conversation = await logitsOf(model, [["read", prompt], ["generated", answer], ["read", more]]);
    expect(bitsEqual(await again.logits(), conversation)).toBe(true);
  });
});

test("a CPU has no matrix units", async () => {
  if (onMetal) return;
  const error = await rejection(openTiny(device, { prompts: "matrix" }));
  expect([error.code, error.argument, error.received]).toEqual(["unsupported", "prompts", '"matrix"']);
});
});

describe("keys and runs of tokens", () => {
  const tokens = [5, 6, 7, 8, 9];
  const generated = new TokenRanges([1, 3, 4, 5]);

  test("a key has a mark on generated tokens, up to its length", () => {
    expect([...keyOf(tokens, 5, generated)]).toEqual([5, 6 + 2 ** 31, 7 + 2 ** 31, 8, 9 + 2 ** 31]);
    expect([...keyOf(tokens, 2, generated)]).toEqual([5, 6 + 2 ** 31]);
    expect([...keyOf(tokens, 5, undefined)]).toEqual(tokens);
    expect([...keyOf([], -1, generated)]).toEqual([]);
  });

  test("a token's role ends where another begins", () => {
    expect(tokens.map((_, i) => roleAt(generated, i))).toEqual([
      { role: "read", end: 1 },
      { role: "generated", end: 3 },
      { role: "generated", end: 3 },
      { role: "read", end: 4 },
      { role: "generated", end: 5 },
    ]);
    expect(roleAt(new TokenRanges(), 3)).toEqual({ role: "read", end: Infinity });
  });
});
