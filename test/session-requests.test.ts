/** Memory use over many requests. The long run is session-requests/long.ts. */
import { afterAll, expect, test } from "bun:test";
import { openDevice } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { openTiny } from "./support/models.ts";
import { runRequests } from "./session-requests/requests.ts";

const device = openDevice(1);
afterAll(() => device.close());
const files = scratch();
const requests = device.emulated ? 240 : 2400;

test(`${requests} requests leave no state, no page and no object behind`, async () => {
  using model = await openTiny(device, { states: 12, pages: { count: 120, tokens: 8 } });
  const marks = await runRequests(model, files.folder, requests, 6, 5);
  const half = marks[2]!; // at this point the engine has compiled the hot functions
  const last = marks.at(-1)!;
  // A leak would be at least an object or two per request. A stale word on the stack may keep hundreds alive for one mark.
  expect(Math.min(last.objects, marks.at(-2)!.objects) - half.objects).toBeLessThan(requests / 6);
  expect(last.heap - half.heap).toBeLessThan(2 * 2 ** 20);
  expect(last.rss - half.rss).toBeLessThan(48 * 2 ** 20);
}, 300_000);
