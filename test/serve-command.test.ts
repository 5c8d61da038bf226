/** `gated-delta serve` as a process: its address, and its shutdown. */
import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { gatedDelta } from "./support/command.ts";
import { writeEndless } from "./support/endless.ts";
import { scratch } from "./support/files.ts";

const { newPath } = scratch();
const endless = writeEndless(newPath("endless"));
const options = ["--backend", "cpu", "--threads", "1", "--no-page", "--quiet"];
const running: Bun.Subprocess[] = [];
afterAll(() => running.forEach((child) => child.kill("SIGKILL")));

async function serve(...args: string[]) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../lib/cli/main.ts"), "serve", endless, "--port", "0", ...options, ...args], { stdout: "pipe", stderr: "pipe" });
  running.push(child);
  const { value } = await child.stdout.getReader().read();
  return { child, url: new TextDecoder().decode(value).trim() };
}

/** Begins an answer. `whole` resolves with whether all of it arrived. */
async function ask(url: string, tokens: number) {
  const response = await fetch(`${url}/completions`, { method: "POST", body: JSON.stringify({ model: "endless", prompt: "Hi", max_tokens: tokens, temperature: 0, stream: true }) });
  const reader = response.body!.getReader();
  await reader.read();
  const whole = (async () => {
    let text = "";
    try {
      for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) text += new TextDecoder().decode(value);
    } catch {
      return false;
    }
    return text.includes("[DONE]") && text.includes('"finish_reason":"length"');
  })();
  return { whole };
}

test("a port that another process listens on is refused", async () => {
  const { child, url } = await serve();
  const { status, out, errors } = gatedDelta(["serve", endless, ...options, "--port", new URL(url).port]);
  expect([status, out]).toEqual([2, ""]);
  expect(errors).toMatch(/^gated-delta serve: .*in use/);
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
}, 60_000);

test.each(["SIGINT", "SIGTERM"] as const)("%s that comes twice for one key press lets running answers end", async (signal) => {
  const { child, url } = await serve();
  const { whole } = await ask(url, 600);
  child.kill(signal);
  await Bun.sleep(20);
  child.kill(signal);
  expect([await whole, await child.exited]).toEqual([true, 0]);
}, 60_000);

test("a second press ends them", async () => {
  const { child, url } = await serve();
  const { whole } = await ask(url, 190_000);
  child.kill("SIGINT");
  await Bun.sleep(1200);
  child.kill("SIGINT");
  expect([await whole, await child.exited]).toEqual([false, 0]);
}, 60_000);

test("a context beyond the model's positions is refused", () => {
  const { status, out, errors } = gatedDelta(["serve", endless, ...options, "--port", "0", "--context", "200001"]);
  expect([status, out]).toEqual([2, ""]);
  expect(errors).toStartWith("gated-delta serve: --context: expected at most the model's 200000 positions, got 200001 ");
});
