// The TypeScript files: constants, layouts and symbols, the options, and the arguments of every op.
import { isPublished } from "./c.mjs";
import { origin, wrapped } from "./text.mjs";

/** Constants, struct layouts and the symbol table of bun:ffi. */
export function typescriptLayout({ constants, structs, functions }) {
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
  lines.push(...symbolTable("symbols", functions.filter(isPublished)), "");
  lines.push("/** Those that only the build of a clone has. */");
  lines.push(...symbolTable("testSymbols", functions.filter((one) => !isPublished(one))), "");
  return lines.join("\n");
}

function symbolTable(name, functions) {
  const own = functions.filter((one) => one.name.startsWith("gd_")); // the others are for the host, not for bun:ffi
  const lines = own.map(({ name, args, returns }) => `  ${name}: { args: [${args.map((arg) => `"${arg}"`).join(", ")}], returns: "${returns}" },`);
  return [`export const ${name} = {`, ...lines, "} as const;"];
}

/** `GateForm` as `gateForms`. */
function tableName(option) {
  const name = option.replace(/^[A-Z]+(?=[A-Z][a-z]|$)|^[A-Z]/, (start) => start.toLowerCase());
  return name.endsWith("s") ? name : `${name}s`;
}

/** Every option as a type and as a table from its names to the numbers that cross the boundary. */
export function typescriptOptions({ options }) {
  const lines = [`// ${origin}`];
  for (const { name, text, values } of options) {
    lines.push("", "/**", ...wrapped(`${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`).map((line) => ` * ${line}`));
    if (values.some((value) => value.text !== undefined)) lines.push(" *");
    for (const value of values) if (value.text !== undefined) lines.push(` * - \`${value.name}\`: ${value.text}`);
    lines.push(" */", ...unionOf(name, values), "", `/** See {@link ${name}}. */`);
    lines.push(`export const ${tableName(name)}: Readonly<Record<${name}, number>> = {`);
    for (const value of values) lines.push(`  ${/^[a-z]\w*$/.test(value.name) ? value.name : `"${value.name}"`}: ${value.value},`);
    lines.push("};");
  }
  return [...lines, ""].join("\n");
}

/** The type of an option: on one line, where that is short enough. */
function unionOf(name, values) {
  const names = values.map((value) => `"${value.name}"`);
  const line = `export type ${name} = ${names.join(" | ")};`;
  if (line.length <= 120) return [line];
  return [`export type ${name} =`, ...names.map((value, i) => `  | ${value}${i === names.length - 1 ? ";" : ""}`)];
}

/** The arguments of every op, in the order in which they are read. */
export function typescriptOps({ ops }) {
  const used = new Set();
  const body = [];
  for (const { name, encode, size, arguments: list } of ops) {
    body.push(`  ${name}: {`, `    encode: "${encode}",`, `    bytes: ${size},`, "    arguments: [");
    for (const argument of list) body.push(`      ${argumentText(argument, used)},`);
    body.push("    ],", "  },");
  }
  const tables = [...used].sort();
  return [
    `// ${origin}`,
    "",
    `import { ${tables.join(", ")} } from "./options.ts";`,
    "",
    "/**",
    " * The ops under their public names: the function that encodes one, the length of its struct, and its arguments. `at` is",
    " * an argument's place in the struct, in words of 4 bytes.",
    " */",
    "export const ops = {",
    ...body,
    "} as const;",
    "",
  ].join("\n");
}

function argumentText(argument, used) {
  const { name, kind, optional, bound, at } = argument;
  const parts = [`name: "${name}"`, `kind: "${kind}"`, `optional: ${optional}`];
  if (kind === "states") return `{ ${parts.join(", ")}, kinds: [${argument.kinds.map((one) => `"${one}"`).join(", ")}], drafts: ${argument.drafts} }`;
  if (bound !== undefined && !name.includes(".")) parts.push(`bound: "${bound}"`);
  if (kind === "group") return `{ ${parts.join(", ")}, members: [\n        ${argument.members.map((one) => `${argumentText(one, used)},`).join("\n        ")}\n      ] }`;
  parts.push(`at: ${at}`);
  if (argument.dtype !== undefined) parts.push(`dtype: "${argument.dtype}"`);
  if (kind === "integer") parts.push(`least: ${argument.least}`, `byDefault: ${argument.default}`);
  if (kind === "number") parts.push(`byDefault: ${Number.isNaN(argument.default) ? "NaN" : String(argument.default)}`);
  if (kind === "option") {
    const table = tableName(argument.option.name);
    used.add(table);
    parts.push(`names: ${table}`, `byDefault: ${argument.default === undefined ? "undefined" : argument.default.value}`);
  }
  return `{ ${parts.join(", ")} }`;
}

/** The name of the file that defines `gatedDelta`'s function. */
function fileOf({ name, module, elementwise }) {
  if (elementwise) return "elementwise";
  return module ?? name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

const argumentsType = ({ name }) => `${name[0].toUpperCase()}${name.slice(1)}Arguments`;

/** Exports of the ops' functions and of their arguments' types. */
export function typescriptFunctions({ ops }) {
  const lines = [`// ${origin}`, "", "/** The ops of the main module. */"];
  for (const op of ops) {
    if (op.module !== undefined) continue;
    lines.push(`export { ${op.name} } from "./${fileOf(op)}.ts";`, `export type { ${argumentsType(op)} } from "./${fileOf(op)}.ts";`);
  }
  return [...lines, ""].join("\n");
}

/** The methods of a pass. */
export function typescriptPass({ ops }) {
  const lines = [`// ${origin}`, "", 'import type { OpName } from "../ops/op-kind.ts";'];
  for (const file of new Set(ops.map(fileOf))) {
    const names = ops.filter((op) => fileOf(op) === file).map(argumentsType);
    lines.push(`import type { ${names.join(", ")} } from "../ops/${file}.ts";`);
  }
  lines.push(
    "",
    "/** Adds an op that is made of arguments. */",
    'export const add: unique symbol = Symbol("add");',
    "",
    "/** The ops' functions as methods, each of which records an op. */",
    "export abstract class PassOps {",
    "  /** @internal */",
    "  abstract [add](name: OpName, args: object): void;",
  );
  for (const op of ops) {
    lines.push("", `  /** See {@link ${op.name}}. */`, `  ${op.name}(args: ${argumentsType(op)}): void {`, `    this[add]("${op.name}", args);`, "  }");
  }
  return [...lines, "}", ""].join("\n");
}
