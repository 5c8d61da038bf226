/** The limits on the Metal backend's host work per dispatch: `npm run bench:host` on the emulation. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { availability } from "../test/support/backends.ts";
import { runBun } from "../test/support/children.ts";
import type { Row } from "./host/main.ts";

const emulated = process.platform === "linux" && availability.some(({ name, absence }) => name === "metal" && absence === undefined);

test.skipIf(!emulated)("a replay makes nothing for a dispatch, and sets nothing twice", () => {
  const { ok, text } = runBun({}, join(import.meta.dir, "host/main.ts"), "--json", "--only", " of 1,");
  expect([ok, ok ? "" : text]).toEqual([true, ""]);
  const rows = text.trim().split("\n").map((line) => JSON.parse(line) as Row);
  expect(rows.map(({ name }) => name)).toHaveLength(4);
  for (const { name, commandBuffers, counts } of rows) {
    const layers = 8;
    expect([name, commandBuffers, counts.dispatches % layers]).toEqual([name, 1, 0]);
    expect(counts.dispatches).toBeGreaterThanOrEqual(layers);
    // For the whole submission, whatever the number of its dispatches.
    expect(counts.encoding.allocations).toBeLessThanOrEqual(4);
    if (name.endsWith("replayed")) expect(counts.all.allocations).toBeLessThanOrEqual(8);
    // One pipeline and one constant of each kind for all layers, if nothing comes between them.
    if (name.includes("fused steps")) expect([counts.setComputePipelineState, counts.setBytes <= 2, counts.barriers]).toEqual([1, true, 0]);
  }
}, 120_000);
