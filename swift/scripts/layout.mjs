// Generates what has to agree with the C header: run `node swift/scripts/layout.mjs` after every change of
// gated_delta.h, or with --check to compare (exit 1 where a file differs). Written from the header:
//
//   swift/Sources/CGatedDelta/layout.c     static assertions, so that the C compiler confirms sizes and offsets
//   swift/Sources/CGatedDelta/exports.map  the linker's export list (GNU version script)
//   swift/Sources/CGatedDelta/exports.txt  the same for Apple's linker
//   lib/native/layout.ts                   constants, struct layouts and the symbol table of bun:ffi
//
// The parser accepts only the C that the header uses and fails on anything else: a declaration that it skipped would be
// unchecked.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = new URL("../../", import.meta.url);
const headerPath = "swift/Sources/CGatedDelta/include/gated_delta.h";

/** Scalar C types: size (which is also the alignment) and the name that bun:ffi has for an argument of the type. */
const scalars = {
  int32_t: { size: 4, ffi: "i32" },
  uint32_t: { size: 4, ffi: "u32" },
  uint64_t: { size: 8, ffi: "u64" },
  float: { size: 4, ffi: "f32" },
  char: { size: 1, ffi: "char" },
  gd_status: { size: 4, ffi: "i32" },
  // A handle is a number below 2^53, which bun:ffi passes faster as a pointer than as a u64.
  gd_handle: { size: 8, ffi: "ptr" },
};
const pointer = { size: 8, ffi: "ptr" };

/** Directives that declare nothing. */
const plainDirective = /^#(ifndef GATED_DELTA_H|define GATED_DELTA_H|include <stdint\.h>|ifdef __cplusplus|endif)$/;

/** Parses a header into constants, structs and functions. Throws on what it does not understand. */
export function parse(header) {
  const constants = [];
  const structs = new Map();
  const functions = [];
  let text = header.replace(/\/\*[\s\S]*?\*\//g, " ");
  if (text.includes("//")) throw new Error("line comments are not part of the header's style");

  text = text.replace(/^[ \t]*#.*$/gm, (line) => {
    const define = /^#define (GD_[A-Z0-9_]+) (\d+)\s*$/.exec(line.trim());
    if (define) {
      if (constants.some(({ name }) => name === define[1])) throw new Error(`${define[1]} is defined twice`);
      constants.push({ name: define[1], value: Number(define[2]) });
    } else if (!plainDirective.test(line.trim())) {
      throw new Error(`unknown directive: ${line.trim()}`);
    }
    return "";
  });
  // Both halves of the C++ guard, whose directives are gone by now.
  text = text.replace(/extern "C" \{/, "").replace(/\}\s*$/, "");

  let rest = text.trim();
  while (rest !== "") {
    let match;
    if ((match = /^typedef (\w+) (\w+);/.exec(rest))) {
      const [base, alias] = [scalars[match[1]], scalars[match[2]]];
      if (!base || !alias || base.size !== alias.size) throw new Error(`unknown typedef: ${match[0]}`);
    } else if ((match = /^typedef struct (\w+) \{([^{}]*)\} (\w+);/.exec(rest))) {
      if (match[1] !== match[3]) throw new Error(`struct ${match[1]} is named ${match[3]}`);
      if (structs.has(match[1])) throw new Error(`struct ${match[1]} is declared twice`);
      structs.set(match[1], layoutOf(match[1], match[2], structs));
    } else if ((match = /^([\w ]+?[ *]+)(gd_\w+|napi_register_module_v1)\(([^()]*)\);/.exec(rest))) {
      const parameters = match[3].trim() === "void" ? [] : match[3].split(",").map((p) => parameterOf(p, structs));
      functions.push({ name: match[2], args: parameters, returns: returnOf(match[1].trim()) });
    } else {
      throw new Error(`cannot parse: ${rest.slice(0, 80)}`);
    }
    rest = rest.slice(match[0].length).trim();
  }
  return { constants, structs, functions };
}

/** Offsets by C's rules. Padding is refused: its bytes would be undefined. */
function layoutOf(struct, body, structs) {
  const fields = [];
  let offset = 0;
  let align = 1;
  for (const declaration of body.split(";").map((line) => line.trim().replace(/\s+/g, " ")).filter(Boolean)) {
    const match = /^(const )?(\w+) (\*?)(\w+(?:, \w+)*)(?:\[(\d+)\])?$/.exec(declaration);
    if (!match) throw new Error(`struct ${struct}: cannot parse "${declaration}"`);
    const [, , type, star, names, count] = match;
    const nested = structs.get(type);
    const kind = star ? pointer : nested ? { size: nested.size, align: nested.align, ffi: type } : scalars[type];
    if (!kind) throw new Error(`struct ${struct}: unknown type ${type}`);
    if (type === "char" && count === undefined) throw new Error(`struct ${struct}: a single char`);
    if (type !== "char" && count !== undefined) throw new Error(`struct ${struct}: an array of ${type}`);
    for (const name of names.split(", ")) {
      if (fields.some((field) => field.name === name)) throw new Error(`struct ${struct}: ${name} twice`);
      const fieldAlign = kind.align ?? kind.size;
      if (offset % fieldAlign !== 0) throw new Error(`struct ${struct}: padding before ${name}`);
      // In memory a handle is a 64-bit integer; as an argument it is passed as a pointer.
      fields.push({ name, offset, type: type === "gd_handle" ? "u64" : kind.ffi });
      align = Math.max(align, fieldAlign);
      offset += kind.size * Number(count ?? 1);
    }
  }
  if (fields.length === 0) throw new Error(`struct ${struct} is empty`);
  if (offset % align !== 0) throw new Error(`struct ${struct}: padding at its end`);
  return { size: offset, align, fields };
}

function parameterOf(text, structs) {
  const match = /^(?:const )?(\w+) (\**)(\w+)$/.exec(text.trim().replace(/\s+/g, " "));
  if (!match) throw new Error(`cannot parse parameter "${text.trim()}"`);
  const [, type, stars] = match;
  if (stars) {
    if (type !== "void" && !scalars[type] && !structs.has(type)) throw new Error(`unknown type ${type}`);
    return pointer.ffi;
  }
  if (!scalars[type] || type === "char") throw new Error(`unknown parameter type ${type}`);
  return scalars[type].ffi;
}

function returnOf(type) {
  if (type === "void") return "void";
  if (type === "const char *") return "cstring";
  if (type === "void *") return pointer.ffi;
  if (scalars[type] && scalars[type].size === 4) return scalars[type].ffi;
  throw new Error(`unknown return type ${type}`);
}

const origin = "Generated from gated_delta.h by swift/scripts/layout.mjs: change that header and run it again.";

function assertions({ structs }) {
  const lines = [`/* ${origin} */`, "#include <stddef.h>", "", '#include "gated_delta.h"', ""];
  for (const [name, { size, align, fields }] of structs) {
    lines.push(`_Static_assert(sizeof(${name}) == ${size} && _Alignof(${name}) == ${align}, "${name}");`);
    for (const field of fields) {
      const path = `${name}, ${field.name}`;
      lines.push(`_Static_assert(offsetof(${path}) == ${field.offset}, "${name}.${field.name}");`);
    }
    lines.push("");
  }
  return lines.join("\n");
}

function typescript({ constants, structs, functions }) {
  const lines = [
    `// ${origin}`,
    "",
    "/** The header's constants. */",
    "export const constants = {",
    ...constants.map(({ name, value }) => `  ${name}: ${value},`),
    "} as const;",
    "",
    "/** The header's structs: size in bytes, each field's offset in bytes and its type (a scalar or another struct). */",
    "export const structs = {",
  ];
  for (const [name, { size, fields }] of structs) {
    lines.push(`  ${name}: {`, `    size: ${size},`, "    offsets: {");
    lines.push(...fields.map((field) => `      ${field.name}: ${field.offset},`));
    lines.push("    },", "    types: {");
    lines.push(...fields.map((field) => `      ${field.name}: "${field.type}",`));
    lines.push("    },", "  },");
  }
  lines.push("} as const;", "", "/** The exported functions, in the form that `dlopen` of bun:ffi takes. */");
  lines.push("export const symbols = {");
  for (const { name, args, returns } of functions) {
    if (!name.startsWith("gd_")) continue; // for the host, not for bun:ffi
    lines.push(`  ${name}: { args: [${args.map((arg) => `"${arg}"`).join(", ")}], returns: "${returns}" },`);
  }
  lines.push("} as const;", "");
  return lines.join("\n");
}

function versionScript({ functions }) {
  const names = functions.map(({ name }) => `    ${name};`);
  return [`/* ${origin} */`, "{", "  global:", ...names, "  local: *;", "};", ""].join("\n");
}

function appleExports({ functions }) {
  return [`# ${origin}`, ...functions.map(({ name }) => `_${name}`), ""].join("\n");
}

/** Path and text of every generated file, for a given header. */
export function generate(header) {
  const parsed = parse(header);
  return new Map([
    ["swift/Sources/CGatedDelta/layout.c", assertions(parsed)],
    ["swift/Sources/CGatedDelta/exports.map", versionScript(parsed)],
    ["swift/Sources/CGatedDelta/exports.txt", appleExports(parsed)],
    ["lib/native/layout.ts", typescript(parsed)],
  ]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const check = process.argv[2] === "--check";
  if (process.argv.length > (check ? 3 : 2)) {
    console.error("usage: node swift/scripts/layout.mjs [--check]");
    process.exit(2);
  }
  for (const [path, text] of generate(readFileSync(new URL(headerPath, root), "utf8"))) {
    if (!check) {
      writeFileSync(new URL(path, root), text);
      continue;
    }
    let current;
    try {
      current = readFileSync(new URL(path, root), "utf8");
    } catch {
      current = undefined;
    }
    if (current !== text) {
      console.error(`${path} does not agree with ${headerPath}: run node swift/scripts/layout.mjs`);
      process.exitCode = 1;
    }
  }
}
