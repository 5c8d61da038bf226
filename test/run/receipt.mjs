// The receipt of a test run on a Mac: the chip, the system, the commit and every runner's counts. It is the evidence
// that the kernels have run on a real GPU, so it names the device that ran them, or the reason why none did.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { quick, run } from "../../swift/scripts/exec.mjs";

/** This machine, and the devices that the built library opens on it. */
export async function machine(root, bun) {
  const words = (command, ...args) => quick(command, args, { cwd: root }) ?? "unknown";
  const probe = await run(bun, ["lib/cli/doctor-probe.ts"], { cwd: root });
  return {
    date: new Date().toISOString(),
    commit: words("git", "rev-parse", "HEAD"),
    // Receipts of earlier runs do not change the tested code. Null without git.
    changes: quick("git", ["status", "--porcelain", "--", ".", ":!test/receipts"], { cwd: root }),
    chip: words("sysctl", "-n", "machdep.cpu.brand_string"),
    system: `${words("sw_vers", "-productName")} ${words("sw_vers", "-productVersion")} (${words("sw_vers", "-buildVersion")})`,
    swift: words("xcrun", "swift", "--version").split("\n")[0],
    devices: devices(probe),
    pipelines: pipelines(root),
  };
}

/** Where Swift's tests write the facts about the GPU's pipelines (PipelineTests.swift). */
export const pipelinesFile = (root) => join(root, ".build", "pipelines.json");

/** These facts: cores and kernels; null if the tests have not run. */
function pipelines(root) {
  try {
    return JSON.parse(readFileSync(pipelinesFile(root), "utf8"));
  } catch {
    return null;
  }
}

function devices({ code, text }) {
  try {
    const { cpu, metal, error } = JSON.parse(text.trim().split("\n").at(-1));
    if (code === 0 && error === undefined) return { cpu, metal };
    return { error: error ?? `the probe ended with ${code}` };
  } catch {
    return { error: `the probe ended with ${code}: ${text.trim().slice(-500)}` };
  }
}

/** The receipt of `results`, [{ name, passed, failed, seconds }], as one JSON object. */
export function receipt({ changes, devices, ...facts }, results) {
  const count = (key) => results.reduce((sum, result) => sum + result[key], 0);
  return {
    kind: "npm test",
    ...facts,
    // Null: unknown. Uncommitted changes are not part of the named commit.
    clean: changes === null ? null : changes === "",
    devices,
    // Only an opened device that is not an emulation is a GPU that the tests used.
    ranOnGpu: typeof devices.metal?.name === "string" && devices.metal.emulated === false,
    passed: count("passed"),
    failed: count("failed"),
    runners: results,
  };
}

/** "apple-m2-pro-2026-11-20-1a2b3c4d.json": a run with the same day, chip and commit replaces the previous one. */
export function receiptName({ chip, date, commit }) {
  const plain = chip.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  return `${plain}-${date.slice(0, 10)}-${commit.slice(0, 8)}.json`;
}

/** Writes the receipt of a run and returns its path, relative to `root`. */
export async function writeReceipt(root, bun, results) {
  const facts = await machine(root, bun);
  const path = join("test", "receipts", receiptName(facts));
  mkdirSync(join(root, "test", "receipts"), { recursive: true });
  writeFileSync(join(root, path), `${JSON.stringify(receipt(facts, results), null, 2)}\n`);
  return path;
}
