/** A share of the servers that `npm run test:server -- stores` kills. */
import { afterAll, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { openDevice } from "../../support/devices.ts";
import { scratch } from "../../support/files.ts";
import { killServers } from "../../support/killed-servers.ts";

const device = openDevice(2);
const { newPath } = scratch();
afterAll(() => device.close());

test("servers killed in the middle of seeded answers change no answer", async () => {
  const folder = newPath("killed");
  mkdirSync(folder);
  const { wrong, killed, within, cachedTokens } = await killServers({ device, handlers: 9, processes: 3, seed: 20_261_123, folder, place: `${folder}/store` });
  expect(wrong).toEqual([]);
  expect([killed, within > 0]).toEqual([12, true]);
  expect(cachedTokens).toBeGreaterThan(0);
}, 120_000);
