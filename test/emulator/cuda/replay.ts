/** Folders of recorded dispatches for another machine's GPU, and the receipt of its results. */
import { spawnSync } from "node:child_process";
import { closeSync, copyFileSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { buildRunner, writeCuda } from "../build.ts";

/** "000012-gd_norm_f32.emurec" is a record of gd_norm_f32. */
function kernelOf(record: string): string {
  return basename(record)
    .replace(/^\d+-/, "")
    .replace(/\.emurec$/, "");
}

/** At most `each` records of every kernel: the smallest, the largest and some between. */
export function choose(folder: string, each: number): string[] {
  const byKernel = new Map<string, { name: string; size: number }[]>();
  for (const name of readdirSync(folder).filter((f) => f.endsWith(".emurec"))) {
    const list = byKernel.get(kernelOf(name)) ?? [];
    list.push({ name, size: statSync(join(folder, name)).size });
    byKernel.set(kernelOf(name), list);
  }
  return [...byKernel.keys()].sort().flatMap((kernel) => {
    const list = (byKernel.get(kernel) ?? []).sort((a, b) => a.size - b.size || (a.name < b.name ? -1 : 1));
    const picked = new Set<string>();
    for (let i = 0; i < each; i += 1) {
      const record = list[Math.round((i * (list.length - 1)) / Math.max(1, each - 1))];
      if (record !== undefined) picked.add(record.name);
    }
    return [...picked];
  });
}

/** The values of a record's function constants, as record_file.h reads them: a kernel's records with equal constants have the same form. */
function constantsOf(path: string): string {
  const head = Buffer.alloc(16_384);
  const file = openSync(path, "r");
  readSync(file, head);
  closeSync(file);
  let at = 8;
  const number = (): number => head.readUInt32LE((at += 4) - 4);
  const text = (): string => head.toString("latin1", at + 4, (at += 4 + head.readUInt32LE(at)));
  text(); // the kernel
  return Array.from({ length: number() }, () => {
    const name = text();
    const index = number();
    text(); // its type
    const bytes = Number(head.readBigUInt64LE((at += 8) - 8));
    return `${name} ${index} ${head.toString("hex", at, (at += bytes))}`;
  }).join(", ");
}

/** For every kernel, the smallest record of each form, at most `each` of them. */
export function chooseForms(folder: string, each: number): string[] {
  const taken = new Map<string, Set<string>>();
  const list = readdirSync(folder).filter((f) => f.endsWith(".emurec")).map((name) => ({ name, size: statSync(join(folder, name)).size }));
  return list
    .sort((a, b) => a.size - b.size || (a.name < b.name ? -1 : 1))
    .filter(({ name }) => {
      const forms = taken.get(kernelOf(name)) ?? new Set<string>();
      taken.set(kernelOf(name), forms);
      const form = constantsOf(join(folder, name));
      if (forms.has(form) || forms.size === each) return false;
      forms.add(form);
      return true;
    })
    .map(({ name }) => name)
    .sort();
}

/** Kernels without a record in a folder that {@link packReplay} has filled. */
export function withoutRecord(output: string): string[] {
  const known = new Set(readdirSync(join(output, "records")).map(kernelOf));
  const manifests = readdirSync(output).filter((f) => f.endsWith(".kernels"));
  const kernels = manifests.flatMap((f) => [...readFileSync(join(output, f), "utf8").matchAll(/^kernel (\S+)/gm)].map(([, name]) => name!));
  return kernels.filter((name) => !known.has(name));
}

/** Fills `output` with CUDA sources, records and the emulator's results; run.sh there does the rest. Returns the number of records. */
export async function packReplay(
  shaders: readonly string[],
  records: string,
  library: string,
  output: string,
  each: number,
  chooses: (folder: string, each: number) => string[] = choose,
): Promise<number> {
  const folder = join(output, "records");
  mkdirSync(folder, { recursive: true });
  writeCuda(shaders, output);
  copyFileSync(join(import.meta.dirname, "run.sh"), join(output, "run.sh"));
  const runner = await buildRunner("none");
  const chosen = chooses(records, each);
  for (const name of chosen) copyFileSync(join(records, name), join(folder, name));
  for (let i = 0; i < chosen.length; i += 50) {
    const pairs = chosen
      .slice(i, i + 50)
      .flatMap((name) => [join(folder, name), join(folder, name.replace(/\.emurec$/, ".expected"))]);
    const result = spawnSync(runner, [library, ...pairs], { encoding: "utf8", maxBuffer: 1 << 26 });
    if (result.stderr !== "") throw new Error(result.stderr.trim());
  }
  return chosen.length;
}

type Line = {
  case?: string;
  group?: string;
  kernels?: readonly { readonly registers: number; readonly spilled: number }[];
  card?: string;
  computeCapability?: string;
  cuda?: number;
  record?: string;
  kernel?: string;
  ran?: boolean;
  sameBits?: boolean;
  microseconds?: number;
  error?: string;
  differences?: unknown[];
};

export type Receipt = {
  readonly card: string;
  readonly computeCapability: string;
  readonly cudaDriver: string;
  readonly date: string;
  readonly commit: string;
  readonly dispatches: number;
  readonly sameBits: number;
  /** Written by hand: parts that are not from this run. */
  readonly notes?: readonly string[];
  /** Failures and differences, by record. */
  readonly problems: readonly { record: string; kernel: string; error: string; differences: readonly unknown[] }[];
  /** By kernel: its dispatches, and the median time in microseconds of each that was timed, in order of size. */
  readonly kernels: Readonly<Record<string, { dispatches: number; microseconds: readonly number[] }>>;
  /** From `bench.jsonl`: each case's median time, that of copying as many bytes, and its kernels' most registers and spilled bytes. */
  readonly cases?: readonly { case: string; microseconds: number; copy: number; registers: number; spilled: number }[];
};

/** Sums up the lines of one or more results files; a record that ran more than once must have been right each time. */
export function receipt(results: readonly string[], commit: string, date: string): Receipt {
  const lines = results
    .flatMap((file) => readFileSync(file, "utf8").split("\n"))
    .filter((l) => l.startsWith("{"))
    .map((l) => JSON.parse(l) as Line);
  const head = lines.find((l) => l.card !== undefined);
  const runs = new Map<
    string,
    { kernel: string; good: boolean; microseconds: number; error: string; differences: readonly unknown[] }
  >();
  for (const l of lines) {
    if (l.record === undefined) continue;
    const record = basename(l.record);
    const before = runs.get(record);
    const good = l.ran === true && l.sameBits === true;
    runs.set(record, {
      kernel: l.kernel ?? "",
      good: good && before?.good !== false,
      microseconds: l.microseconds || (before?.microseconds ?? 0),
      error: (l.error ?? "") || (before?.error ?? ""),
      differences: [...(before?.differences ?? []), ...(l.differences ?? [])],
    });
  }
  const kernels: Record<string, { dispatches: number; microseconds: number[] }> = {};
  const ordered = [...runs].sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [, r] of ordered) {
    const entry = (kernels[r.kernel] ??= { dispatches: 0, microseconds: [] });
    entry.dispatches += 1;
    if (r.microseconds > 0) entry.microseconds.push(r.microseconds);
  }
  const timed = lines.filter((l) => l.case !== undefined && l.error === "");
  const cases = timed
    .filter((l) => l.case !== "copy")
    .map((l) => ({
      case: l.case!,
      microseconds: l.microseconds!,
      copy: timed.find((other) => other.case === "copy" && other.group === l.group)?.microseconds ?? 0,
      registers: Math.max(...l.kernels!.map((k) => k.registers)),
      spilled: Math.max(...l.kernels!.map((k) => k.spilled)),
    }));
  return {
    card: head?.card ?? "",
    computeCapability: head?.computeCapability ?? "",
    date,
    commit,
    cudaDriver:
      head?.cuda === undefined ? "" : `${Math.floor(head.cuda / 1000)}.${Math.floor((head.cuda % 1000) / 10)}`,
    dispatches: runs.size,
    sameBits: ordered.filter(([, r]) => r.good).length,
    problems: ordered
      .filter(([, r]) => !r.good)
      .map(([record, { kernel, error, differences }]) => ({ record, kernel, error, differences })),
    kernels: Object.fromEntries(Object.entries(kernels).sort(([a], [b]) => (a < b ? -1 : 1))),
    ...(cases.length > 0 && { cases }),
  };
}
