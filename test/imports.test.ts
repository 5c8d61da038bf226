/**
 * The rooms of lib/ and the direction of dependency between them (DESIGN §1): a file imports values only from its own
 * room or a lower one, and never in a circle. Types may come from above where a value below belongs to something above, as a
 * tensor does to its Device; those imports are few and listed here.
 */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

const root = resolve(import.meta.dir, "../lib");

/** From the lowest room to the highest. `errors`, `ggml` and `index` are files. */
const floors = [
  ["errors"],
  ["turns"],
  ["arguments"],
  ["native"],
  ["tensor"],
  ["checkpoint"],
  ["ops"],
  ["device"],
  ["states"],
  ["layer"],
  ["model"],
  ["server"],
  ["ai"],
  ["cli"],
  ["ggml", "index"],
];

/** Type imports from a room above, by the file that has them, each with the reason to name the higher type. */
const typesThatLookUp: Readonly<Record<string, readonly string[]>> = {
  // Users reach a tensor's device as `tensor.device`. Nothing else in tensor/ and ops/ names a device.
  "tensor/tensor.ts": ["device/device.ts"],
  // Weights get memory on the device that they are for.
  "checkpoint/tensor-loader.ts": ["device/device.ts"],
  "checkpoint/mapped-tensors.ts": ["device/device.ts"],
};

interface Import {
  readonly from: string;
  readonly to: string;
  readonly kind: "value" | "type";
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), "utf8");
  const found: Import[] = [];
  const add = (specifier: string, kind: Import["kind"]): void => {
    if (!specifier.startsWith(".")) return;
    const to = relative(root, resolve(root, dirname(file), specifier));
    if (to.startsWith("..")) return; // package.json
    found.push({ from: file, to, kind });
  };
  for (const [, type, specifier] of text.matchAll(/^(?:import|export)\s+(type\s)?[^;"]*?from\s+"([^"]+)"/gm)) {
    add(specifier!, type === undefined ? "value" : "type");
  }
  for (const [, specifier] of text.matchAll(/(?:\brequire|\bimport)\(\s*"([^"]+)"\s*\)/g)) add(specifier!, "value");
  return found;
}

const files = [...new Bun.Glob("**/*.ts").scanSync(root)].sort();
const imports = files.flatMap(importsOf);

function roomOf(file: string): string {
  const [first] = file.split("/");
  return first === file ? file.replace(/\.ts$/, "") : first!;
}

function floorOf(file: string): number {
  return floors.findIndex((rooms) => rooms.includes(roomOf(file)));
}

function looksUp({ from, to }: Import): boolean {
  return roomOf(from) !== roomOf(to) && floorOf(to) >= floorOf(from);
}

describe("imports within lib", () => {
  test("every file stands in a known room", () => {
    expect(files.filter((file) => floorOf(file) < 0)).toEqual([]);
    expect(imports.length).toBeGreaterThan(100); // the expressions above still find imports
  });

  test("only native/ imports bun:ffi", () => {
    const users = files.filter((file) => /"bun:ffi"/.test(readFileSync(join(root, file), "utf8")));
    expect(users.filter((file) => roomOf(file) !== "native")).toEqual([]);
  });

  test("zod is imported by two files of arguments/, and only for types elsewhere", () => {
    const users = files.filter((file) => /^(?!import type).*\bfrom "zod|(?:import|require)\("zod/m.test(readFileSync(join(root, file), "utf8")));
    expect(users).toEqual(["arguments/import-zod.ts", "arguments/schema-parts.ts"]);
  });

  test("values come from the same room or one below", () => {
    expect(imports.filter((one) => one.kind === "value" && looksUp(one))).toEqual([]);
  });

  test("types that look up are those listed", () => {
    const found: Record<string, string[]> = {};
    for (const one of imports) if (one.kind === "type" && looksUp(one)) (found[one.from] ??= []).push(one.to);
    expect(found).toEqual(typesThatLookUp as Record<string, string[]>);
  });

  test("values are imported in no circle", () => {
    const next = Map.groupBy(imports.filter(({ kind }) => kind === "value"), ({ from }) => from);
    const done = new Set<string>();
    const walk = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) throw new Error(`a circle of values: ${[...path, file].join(" > ")}`);
      if (done.has(file)) return;
      for (const { to } of next.get(file) ?? []) walk(to, [...path, file]);
      done.add(file);
    };
    for (const file of files) walk(file, []);
  });
});
