import { readFileSync } from "node:fs";

/** The names that a shared library exports, sorted. ELF is read here: a machine that runs the tests may lack `nm`. */
export function exportsOf(path: string): string[] {
  if (process.platform === "darwin") {
    const { stdout } = Bun.spawnSync(["nm", "-gUj", path]);
    return stdout.toString().split("\n").filter(Boolean).map((name) => name.replace(/^_/, "")).sort();
  }
  const file = readFileSync(path);
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const wide = (offset: number): number => Number(view.getBigUint64(offset, true));
  if (view.getUint32(0) !== 0x7f454c46 || file[4] !== 2 || file[5] !== 1) throw new Error(`${path}: no 64-bit ELF file`);

  const sections = Array.from({ length: view.getUint16(60, true) }, (_, index) => {
    const at = wide(40) + index * view.getUint16(58, true);
    const [type, link] = [view.getUint32(at + 4, true), view.getUint32(at + 40, true)];
    return { type, link, offset: wide(at + 24), size: wide(at + 32) };
  });
  const dynamicSymbols = 11;
  const table = sections.find(({ type }) => type === dynamicSymbols);
  const strings = table && sections[table.link];
  if (!table || !strings) throw new Error(`${path}: no dynamic symbols`);

  const names: string[] = [];
  const entrySize = 24;
  for (let at = table.offset; at < table.offset + table.size; at += entrySize) {
    const isLocal = file[at + 4]! >> 4 === 0;
    const isDefined = view.getUint16(at + 6, true) !== 0;
    if (isLocal || !isDefined) continue;
    const start = strings.offset + view.getUint32(at, true);
    names.push(file.toString("latin1", start, file.indexOf(0, start)));
  }
  return names.sort();
}
