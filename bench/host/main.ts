/**
 * `npm run bench:host`: the Metal backend's host work per dispatch, counted on the emulation: encoder calls, heap objects,
 * retains and releases. Each case runs twice before it is counted, so that pipelines are compiled and buffers exist.
 * `encoding` runs from the creation of a command buffer to its commit; `all` begins at the previous commit, and so includes
 * checks, descriptors and the submission. Completion runs on a thread of Metal's and is in neither. `--json` prints one line
 * per case, and `--only TEXT` leaves out those whose names do not contain the text.
 */
import { readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { cases } from "./cases.ts";
import { Device } from "../../lib/index.ts";

/** A line of the emulation's file. */
export interface Counts {
  readonly dispatches: number;
  readonly barriers: number;
  readonly setComputePipelineState: number;
  readonly setBuffer: number;
  readonly setBytes: number;
  readonly setThreadgroupMemoryLength: number;
  readonly encoding: Work;
  readonly all: Work;
}

interface Work {
  readonly allocations: number;
  readonly retains: number;
  readonly releases: number;
}

/** The command buffers of one submission, and the sum of their counts. */
export interface Row {
  readonly name: string;
  readonly commandBuffers: number;
  readonly counts: Counts;
}

const variable = "GATED_DELTA_EMULATOR_COUNTS";

const addWork = (a: Work, b: Work): Work => ({ allocations: a.allocations + b.allocations, retains: a.retains + b.retains, releases: a.releases + b.releases });

function add(a: Counts, b: Counts): Counts {
  return {
    dispatches: a.dispatches + b.dispatches,
    barriers: a.barriers + b.barriers,
    setComputePipelineState: a.setComputePipelineState + b.setComputePipelineState,
    setBuffer: a.setBuffer + b.setBuffer,
    setBytes: a.setBytes + b.setBytes,
    setThreadgroupMemoryLength: a.setThreadgroupMemoryLength + b.setThreadgroupMemoryLength,
    encoding: addWork(a.encoding, b.encoding),
    all: addWork(a.all, b.all),
  };
}

/** Runs every case, in a process for which the variable was set. */
async function measure(file: string, only: string): Promise<Row[]> {
  const linesOf = () => readFileSync(file, "utf8").trimEnd().split("\n");
  using device = Device.open("metal");
  const rows: Row[] = [];
  for await (const { name, run } of cases(device)) {
    if (!name.includes(only)) continue;
    for (let i = 0; i < 2; i++) await run();
    const before = linesOf().length;
    await run();
    const lines = linesOf().slice(before).map((line) => JSON.parse(line) as Counts);
    rows.push({ name, commandBuffers: lines.length, counts: lines.reduce(add) });
  }
  return rows;
}

function table(rows: readonly Row[]): string {
  const per = (count: number, { dispatches }: Counts) => (count / dispatches).toFixed(2);
  const work = (work: Work, counts: Counts) => `${per(work.allocations, counts)} / ${per(work.retains, counts)} / ${per(work.releases, counts)}`;
  const lines = rows.map(({ name, counts }) => {
    const calls = [counts.barriers, counts.setComputePipelineState, counts.setBuffer, counts.setBytes, counts.setThreadgroupMemoryLength];
    return [name, counts.dispatches, ...calls.map((count) => per(count, counts)), work(counts.encoding, counts), work(counts.all, counts)];
  });
  const head = ["a submission", "dispatches", "barriers", "pipelines", "buffers", "bytes", "threadgroup memory", "encoding: objects / retains / releases", "all"];
  return [head, head.map(() => "---"), ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

if (import.meta.main) {
  const file = process.env[variable];
  const { values } = parseArgs({ options: { json: { type: "boolean" }, only: { type: "string", default: "" } } });
  if (file !== undefined) {
    const rows = await measure(file, values.only);
    console.log(values.json === true ? rows.map((row) => JSON.stringify(row)).join("\n") : table(rows));
  } else {
    // The library reads its environment once, as it was when the process began.
    const path = join(tmpdir(), `gated-delta-counts-${process.pid}`);
    const { exitCode } = Bun.spawnSync([process.execPath, import.meta.path, ...process.argv.slice(2)], {
      env: { ...process.env, [variable]: path },
      stdio: ["ignore", "inherit", "inherit"],
    });
    rmSync(path, { force: true });
    process.exitCode = exitCode;
  }
}
