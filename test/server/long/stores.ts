/** 200 servers that are killed in the middle of seeded answers: with a folder, and as many with Redis if it is installed. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Device } from "../../../lib/index.ts";
import { killServers } from "../../support/killed-servers.ts";
import { redisProgram, startRedis } from "../../support/store-servers.ts";

const handlers = 150;
const processes = 50;

export async function run(say: (line: string) => void): Promise<void> {
  using device = Device.open("cpu");
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-killed-"));
  try {
    const kill = async (store: string, place: string, seed: number): Promise<void> => {
      const begun = performance.now();
      const { answers, killed, within, promptTokens, cachedTokens, wrong } = await killServers({ device, handlers, processes, seed, folder, place });
      say(`${store}: ${killed} servers killed (${processes} of them processes), ${within} of them after a part of the answer; ${Math.round((performance.now() - begun) / 1000)} s`);
      say(`${store}: ${answers} whole answers, ${wrong.length} of them not those of a server without a store; ${promptTokens} tokens of prompts, ${cachedTokens} of them not read again`);
      if (wrong.length > 0) throw new Error(wrong.slice(0, 3).join("\n"));
    };
    await kill("a folder", join(folder, "store"), 1);
    if (redisProgram === null) return say("Redis: not run: there is no redis-server on PATH, and no GATED_DELTA_REDIS");
    await using redis = await startRedis();
    await kill("Redis", redis.place, 2);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
