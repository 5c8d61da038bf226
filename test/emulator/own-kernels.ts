/** This project's own kernels for tests: copies with a planted mistake, and the arguments of their dispatches. */
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const root = join(import.meta.dirname, "..", "..");
export const shaders = join(root, "shaders");

/** A copy of the shaders with one change, whose place must exist. */
export function changed(name: string, from: string | RegExp, to: string): string {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-planted-"));
  for (const entry of readdirSync(shaders)) {
    let text = readFileSync(join(shaders, entry), "utf8");
    if (entry === name) {
      const next = text.replace(from, to);
      if (next === text) throw new Error(`${name}: nothing to change at ${String(from)}`);
      text = next;
    }
    writeFileSync(join(folder, entry), text);
  }
  return folder;
}

const parameters = ["option_values.h", "params.h"].map((name) => readFileSync(join(shaders, name), "utf8")).join("\n");

/** A parameter structure's bytes, by the names of its 4-byte fields. */
export function structure(name: string, values: Readonly<Record<string, number>>): Uint8Array {
  const body = new RegExp(`typedef struct ${name} \\{([^}]*)\\}`).exec(parameters)?.[1] ?? "";
  const fields = [...body.replace(/\/\/.*$/gm, "").matchAll(/(u?int32_t|float)\s+([^;]+);/g)].flatMap(
    ([, type = "", names = ""]) => names.split(",").map((n) => ({ type, name: n.trim() })),
  );
  const view = new DataView(new ArrayBuffer(fields.length * 4));
  fields.forEach((f, i) => {
    const value = values[f.name];
    if (value === undefined) throw new Error(`${name}.${f.name}: no value`);
    if (f.type === "float") view.setFloat32(i * 4, value, true);
    else view.setInt32(i * 4, value, true);
  });
  return new Uint8Array(view.buffer);
}

export function constant(name: string): number {
  const value = new RegExp(`\\b${name} = (\\d+)`).exec(parameters)?.[1];
  if (value === undefined) throw new Error(`${name}: no such constant`);
  return Number(value);
}
