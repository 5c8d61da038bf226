// Reads the libraries and symbol versions that an ELF file needs, and changes section flags in the objects of an archive. Only
// for 64-bit little-endian files, since all platforms here use these.

/** SHF_GNU_RETAIN: "keep this section even if nothing refers to it". */
const retain = 0x200000n;
const dynamicSection = 6;
const versionNeeds = 0x6ffffffe;

function isElf(bytes, at) {
  return bytes.readUInt32BE(at) === 0x7f454c46 && bytes[at + 4] === 2 && bytes[at + 5] === 1;
}

/** Section headers of the ELF file that begins at `start`; `at` is a header's position in `bytes`. */
function sectionsOf(bytes, start = 0) {
  const table = start + Number(bytes.readBigUInt64LE(start + 0x28));
  const size = bytes.readUInt16LE(start + 0x3a);
  // More sections than 16 bits can count: the first header holds the number, and the index of the names.
  const count = bytes.readUInt16LE(start + 0x3c) || Number(bytes.readBigUInt64LE(table + 0x20));
  const named = bytes.readUInt16LE(start + 0x3e);
  const names = named === 0xffff ? bytes.readUInt32LE(table + 0x28) : named;
  const nameTable = start + Number(bytes.readBigUInt64LE(table + names * size + 0x18));
  return Array.from({ length: count }, (_, i) => {
    const at = table + i * size;
    return {
      at,
      name: text(bytes, nameTable + bytes.readUInt32LE(at)),
      type: bytes.readUInt32LE(at + 4),
      flags: bytes.readBigUInt64LE(at + 8),
      offset: start + Number(bytes.readBigUInt64LE(at + 0x18)),
      size: Number(bytes.readBigUInt64LE(at + 0x20)),
      link: bytes.readUInt32LE(at + 0x28),
      count: bytes.readUInt32LE(at + 0x2c),
    };
  });
}

function text(bytes, at) {
  return bytes.toString("latin1", at, bytes.indexOf(0, at));
}

/** The requirements of a shared library: `needed`, the names of libraries, and `versions`, their symbol versions. */
export function demandsOf(bytes) {
  if (bytes.length < 64 || !isElf(bytes, 0)) throw new Error("not a 64-bit little-endian ELF file");
  const sections = sectionsOf(bytes);
  const needed = [];
  const dynamic = sections.find(({ type }) => type === dynamicSection);
  for (let at = dynamic.offset; at < dynamic.offset + dynamic.size; at += 16) {
    if (bytes.readBigUInt64LE(at) === 1n) needed.push(text(bytes, sections[dynamic.link].offset + Number(bytes.readBigUInt64LE(at + 8))));
  }
  const versions = [];
  const needs = sections.find(({ type }) => type === versionNeeds);
  let library = needs?.offset ?? 0;
  for (let left = needs?.count ?? 0; left > 0; left--) {
    let version = library + bytes.readUInt32LE(library + 8);
    for (let count = bytes.readUInt16LE(library + 2); count > 0; count--) {
      versions.push(text(bytes, sections[needs.link].offset + bytes.readUInt32LE(version + 8)));
      version += bytes.readUInt32LE(version + 12);
    }
    library += bytes.readUInt32LE(library + 12);
  }
  return { needed, versions: [...new Set(versions)] };
}

/** The newest glibc version among symbol versions, as [major, minor]. */
export function newestGlibc(versions) {
  const numbers = versions.flatMap((version) => {
    const match = /^GLIBC_(\d+)\.(\d+)/.exec(version);
    return match === null ? [] : [[Number(match[1]), Number(match[2])]];
  });
  return numbers.sort(([a, b], [c, d]) => c - a || d - b)[0] ?? null;
}

/** Sizes of the loaded sections, largest first. */
export function loadedSections(bytes) {
  const allocated = 2n;
  const nothingInFile = 8;
  return sectionsOf(bytes)
    .filter(({ flags, type, size }) => (flags & allocated) !== 0n && type !== nothingInFile && size > 0)
    .map(({ name, size }) => ({ name, size }))
    .sort((a, b) => b.size - a.size);
}

/**
 * Lets a linker drop unreferenced parts of a Swift object, or an archive of them: it has a section for every public
 * function, but each is marked to be kept. The marks stay on the records by which the runtime finds types and conformances at run
 * time (`swift5_…`), which are found by iteration and never by a reference; everything to which those refer is thus kept too.
 * Changes `bytes` in place and returns the number of sections freed.
 */
export function releaseSections(bytes) {
  if (bytes.length > 64 && isElf(bytes, 0)) return releaseObject(bytes, 0);
  if (bytes.toString("latin1", 0, 8) !== "!<arch>\n") throw new Error("neither an archive nor an ELF file");
  let freed = 0;
  for (let at = 8; at + 60 <= bytes.length; ) {
    const size = Number(bytes.toString("latin1", at + 48, at + 58));
    const start = at + 60;
    if (size > 64 && isElf(bytes, start)) freed += releaseObject(bytes, start);
    at = start + size + (size % 2);
  }
  return freed;
}

function releaseObject(bytes, start) {
  const kept = sectionsOf(bytes, start).filter(({ name, flags }) => (flags & retain) !== 0n && !name.startsWith("swift5_"));
  for (const { at, flags } of kept) bytes.writeBigUInt64LE(flags & ~retain, at + 8);
  return kept.length;
}
