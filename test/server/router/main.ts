/**
 * `npm run test:router`: a real router, SMG (PyPI's smg), in front of three servers on loopback. It measures how many prompt tokens were
 * in the servers' caches when requests go round robin, and when the router sends a conversation to the server that knows it; and whether
 * answers stay the same when a server is killed in the middle. The record is test/receipts/server-router.txt.
 *
 * smg is installed in a virtual environment in a folder for the time of the test; `GATED_DELTA_SMG=PROGRAM` names an installed one instead.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { Device } from "../../../lib/index.ts";
import { LanguageModel, tinyModel } from "../../../lib/model.ts";
import { installed } from "../../support/python.ts";
import { plainServer, secret, words } from "../../support/store-conversations.ts";
import type { PlainServer } from "../../support/store-conversations.ts";
import { freePort } from "../../support/store-servers.ts";
import { startServer } from "../../support/server-process.ts";
import type { ServerProcess } from "../../support/server-process.ts";

/** SMG's version. */
const version = "1.13.0";
const conversations = 12;
const turns = 5;

interface Share {
  readonly prompt: number;
  readonly cached: number;
  readonly restored: number;
  readonly answers: number;
  /** Answers that were requested again because the server was killed. */
  readonly again: number;
  readonly wrong: number;
}

interface Setup {
  readonly policy: "round_robin" | "cache_aware";
  readonly store: boolean;
  /** Whether a server is killed in the middle. */
  readonly killed: boolean;
}

const root = join(import.meta.dir, "../../..");
const folder = mkdtempSync(join(tmpdir(), "gated-delta-router-"));

async function whole(smg: string, { policy, store, killed }: Setup, reference: PlainServer): Promise<Share> {
  const place = mkdtempSync(join(folder, "store-"));
  const file = join(folder, "secret");
  writeFileSync(file, secret);
  await using all = new AsyncDisposableStack();
  const stored = store ? ["--store", place, "--secret-file", file] : [];
  const servers: ServerProcess[] = [];
  for (let i = 0; i < 3; i++) servers.push(all.use(await startServer(tinyModel, ["--backend", "cpu", "--threads", "1", "--sessions", "48", "--context", "1024", "--name", "tiny", ...stored])));
  const [port, metrics] = [freePort(), freePort()];
  const workers = servers.map(({ url }) => url.origin);
  const router = Bun.spawn(
    [smg, "launch", "--host", "127.0.0.1", "--port", `${port}`, "--prometheus-port", `${metrics}`, "--worker-urls", ...workers, "--policy", policy, "--health-check-interval-secs", "1", "--log-level", "warn"],
    { cwd: root, stdin: "ignore", stdout: "ignore", stderr: "ignore" },
  );
  all.defer(async () => {
    router.kill();
    await router.exited;
  });
  const address = `http://127.0.0.1:${port}`;
  await waitFor(async () => ((await (await fetch(`${address}/v1/models`)).json()) as any).data[0]?.id === "tiny");

  const sum = { prompt: 0, cached: 0, restored: 0, answers: 0, again: 0, wrong: 0 };
  const messages = Array.from({ length: conversations }, (_, i): object[] => [{ role: "system", content: words(60, i % 3) }]);
  for (let turn = 0; turn < turns; turn++) {
    const ask = async (of: object[], i: number): Promise<void> => {
      of.push({ role: "user", content: words(20, 100 * turn + i) });
      const request = { model: "tiny", messages: of, seed: turn, max_tokens: 12, temperature: 1, chat_template_kwargs: { enable_thinking: false } };
      let body: any;
      for (let tries = 0; ; tries++) {
        const response = await fetch(`${address}/v1/chat/completions`, { method: "POST", body: JSON.stringify(request), headers: { "content-type": "application/json" } }).catch(() => undefined);
        body = await response?.json().catch(() => undefined);
        if (response?.ok === true && body !== undefined) break;
        if (!killed || tries === 100) throw new Error(`the router answered ${response?.status}: ${JSON.stringify(body)}`);
        sum.again++;
        await Bun.sleep(100);
      }
      const expected = await reference.ask(request);
      const content = (given: any): string => JSON.stringify(given.choices[0].message.content);
      if (content(body) !== content(expected.body)) sum.wrong++;
      sum.prompt += body.usage.prompt_tokens;
      sum.cached += body.usage.prompt_tokens_details.cached_tokens;
      sum.answers++;
      of.push({ role: "assistant", content: body.choices[0].message.content ?? "" });
    };
    // Four at a time, in a changing order, so that round robin does not keep a conversation at one server by chance.
    const order = messages.map((of, i) => ({ of, i })).sort((a, b) => ((a.i * 7 + turn * 5) % conversations) - ((b.i * 7 + turn * 5) % conversations));
    for (let at = 0; at < order.length; at += 4) {
      const asked = order.slice(at, at + 4).map(({ of, i }) => ask(of, i));
      if (killed && turn === 2 && at === 4) await (await busiest(servers)).kill();
      await Promise.all(asked);
    }
  }
  for (const { errors } of servers) for (const [, restored] of (await errors()).matchAll(/, (\d+) of them restored/g)) sum.restored += Number(restored);
  return sum;
}

/** The server that has read the most prompt tokens, by its metrics. */
async function busiest(servers: readonly ServerProcess[]): Promise<ServerProcess> {
  const counts = await Promise.all(
    servers.map(async ({ url }) => {
      const page = await (await fetch(new URL("/metrics", url))).text();
      return Number(/^gated_delta_prompt_tokens_total\{.*\} (\d+)$/m.exec(page)![1]);
    }),
  );
  return servers[counts.indexOf(Math.max(...counts))]!;
}

async function waitFor(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds().catch(() => false)); tries++) {
    if (tries === 300) throw new Error("the router did not begin within 60 s");
    await Bun.sleep(200);
  }
}

try {
  const say = (line: string): void => console.log(line);
  const smg = process.env["GATED_DELTA_SMG"] ?? (await installed(folder, `smg==${version}`, "smg", say));
  using device = Device.open("cpu");
  using model = await LanguageModel.load(device, tinyModel, { states: 8, pages: 128 });
  using reference = plainServer(model, { cache: undefined });
  say(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; backend: cpu ${device.isa}; Bun ${Bun.version}; smg ${version}`);
  say(`${conversations} conversations of ${turns} turns, three first messages, four requests at a time, three servers`);
  const setups: Setup[] = [
    { policy: "round_robin", store: false, killed: false },
    { policy: "cache_aware", store: false, killed: false },
    { policy: "round_robin", store: true, killed: false },
    { policy: "cache_aware", store: false, killed: true },
    { policy: "cache_aware", store: true, killed: true },
  ];
  const shares: number[] = [];
  for (const setup of setups) {
    const { prompt, cached, restored, answers, again, wrong } = await whole(smg, setup, reference);
    shares.push(cached / prompt);
    const name = `${setup.policy}${setup.store ? ", with a store" : ""}${setup.killed ? ", a server killed" : ""}`;
    say(`${name}: ${answers} answers, ${wrong} wrong${setup.killed ? `, ${again} requests sent again` : ""}; of ${prompt} tokens of prompts ${cached} known (${((100 * cached) / prompt).toFixed(1)} %), ${restored} of them from the store`);
    if (wrong > 0) throw new Error(`${name}: answers differ from those of a server without cache and store`);
  }
  if (!(shares[1]! > shares[0]!)) throw new Error("the router finds no more in the caches than round robin does");
  say("ok");
} catch (error) {
  console.error(`not ok: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
