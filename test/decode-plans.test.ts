// The plans that a model keeps for decoding.
import { afterAll, expect, test } from "bun:test";
import { Device } from "../lib/index.ts";
import { DecodePlans } from "../lib/model/decode-plan.ts";
import type { PageList } from "../lib/model/page-ledger.ts";

const device = Device.open("cpu");
afterAll(() => device.close());

/** The lists of `sequences` sequences of `pages` pages each. */
const lists = (sequences: number, pages = 3): PageList[] =>
  Array.from({ length: sequences }, (_, i) => ({ pages: Array.from({ length: pages }, (_, p) => p), tokens: i, stamp: i + 1, step: undefined, live: true }));

test("sessions that end one by one, and as many others, need no plan twice", () => {
  using plans = new DecodePlans(device, 40);
  const sizes = Array.from({ length: 40 }, (_, i) => 40 - i);
  const first = sizes.flatMap((size) => [plans.find(lists(size)), plans.find(lists(size, 12))]);
  expect(new Set(first).size).toBe(80);
  expect(sizes.flatMap((size) => [plans.find(lists(size)), plans.find(lists(size, 12))])).toEqual(first);
});

test.each([[1, 16], [4000, 128]])("a model of %d states keeps at most %d plans, those used last", (states, most) => {
  using plans = new DecodePlans(device, states);
  const made = Array.from({ length: most + 3 }, (_, i) => plans.find(lists(1 + i)));
  expect(plans.size).toBe(most);
  expect(plans.find(lists(most + 3))).toBe(made.at(-1)!);
  expect(plans.find(lists(4))).toBe(made[3]!);
  expect(made).not.toContain(plans.find(lists(1)));
  expect(plans.size).toBe(most);
});
