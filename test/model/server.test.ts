/** The example of a server: 50 clients at the same time, some of which leave in the middle. */
import { afterAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LanguageModel } from "../../lib/model.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { collect, textOfPieces } from "../support/sessions.ts";

const root = join(import.meta.dir, "../..");
const device = openDevice(2);
afterAll(() => device.close());
const { folder } = scratch();

/** Starts the example as a project that has installed the package would. */
async function start(): Promise<{ url: URL; stop: () => Promise<unknown> }> {
  const modules = join(folder, "node_modules");
  mkdirSync(modules, { recursive: true });
  if (!existsSync(join(modules, "gated-delta"))) symlinkSync(root, join(modules, "gated-delta"), "dir");
  const script = join(folder, "server.ts");
  writeFileSync(script, readFileSync(join(root, "docs/examples/server.ts")));
  const child = Bun.spawn([process.execPath, script], { cwd: root, env: { ...process.env, PORT: "0" }, stdout: "pipe", stderr: "inherit" });
  const { value } = await child.stdout.getReader().read();
  return { url: new URL(new TextDecoder().decode(value).trim()), stop: () => (child.kill(), child.exited) };
}

test("50 clients share steps and beginnings; some leave; each gets its own answer, and nothing stays taken", async () => {
  const { url, stop } = await start();
  try {
    const system = { role: "system", content: "Be brief, and name three things of each kind. ".repeat(3) };
    const messages = (i: number) => [system, { role: "user", content: `Question ${i % 25}: ${"abc".repeat(i % 5)}?` }];
    const stats = async () => (await (await fetch(new URL("/stats", url))).json()) as { freeStates: number; cached: number; hits: number; steps: number };
    const before = await stats();
    const answers = await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const leaving = i % 5 === 4;
        const controller = new AbortController();
        const body = JSON.stringify({ messages: messages(i), max_tokens: 24, stream: leaving, temperature: 0, user: i % 2 === 0 ? "even" : "odd" });
        const response = await fetch(new URL("/v1/chat/completions", url), { method: "POST", body, signal: controller.signal });
        expect(response.status).toBe(200);
        if (!leaving) return ((await response.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content;
        const reader = response.body!.getReader();
        const { value } = await reader.read();
        controller.abort();
        const deltas = new TextDecoder().decode(value).matchAll(/"content":("(?:[^"\\]|\\.)*")/g);
        return [...deltas].map(([, text]) => JSON.parse(text!) as string).join("");
      }),
    );
    const after = await stats();
    expect(after.hits).toBeGreaterThan(10);
    // One at a time, they would take about 24 steps each, and one more for each prompt.
    expect(after.steps - before.steps).toBeLessThan(50 * 24);

    using model = await LanguageModel.load(device, join(root, "test/golden/models/qwen3_5-mlx-mixed"), { states: 2, pages: 40 });
    for (const [i, answer] of answers.entries()) {
      using session = model.session().chat(messages(i));
      const expected = textOfPieces(await collect(session.generate({ maxTokens: 24 })));
      if (i % 5 === 4) expect(expected.startsWith(answer.replace(/\ufffd*$/, ""))).toBe(true);
      else expect(answer).toBe(expected);
    }
    expect((await fetch(new URL("/v1/chat/completions", url), { method: "POST", body: `{"messages":5}` })).status).toBe(400);
    // The memory of the clients that left is free; the cache holds the rest.
    const deadline = performance.now() + 60_000;
    let last = await stats();
    while (last.freeStates + last.cached < 24 && performance.now() < deadline) {
      await Bun.sleep(20);
      last = await stats();
    }
    expect(last.freeStates + last.cached).toBe(24);
  } finally {
    await stop();
  }
}, 240_000);
