// Reads gated_delta.h: constants, options, structs, functions and the arguments of every op.
//
// The parser accepts only the C that the header uses and fails on anything else: a declaration that it skipped would be
// unchecked. Comments that begin with @ are annotations; the header says what they mean.
import { argumentsOf, publicName, readNote } from "./arguments.mjs";
import { choiceOf, optionOf, valueOf } from "./options.mjs";

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

/** Parses a header. Throws on anything that it does not know. */
export function parse(header) {
  const notes = [];
  // Annotations become marks, so that it can be told which declaration they belong to.
  let text = header.replace(/\/\*([\s\S]*?)\*\//g, (_, comment) => {
    const note = comment.replace(/\n\s*\*/g, " ").replace(/\s+/g, " ").trim();
    if (!note.startsWith("@")) return " ";
    notes.push(note.slice(1));
    return ` $${notes.length - 1}$ `;
  });
  if (text.includes("//")) throw new Error("line comments are not part of the header's style");

  const constants = [];
  const options = [];
  text = text.replace(/^[ \t]*(?:#.*|\$\d+\$[ \t]*)$/gm, (line) => {
    readLine(line.trim(), notes, constants, options);
    return "";
  });
  // Both halves of the C++ guard, whose directives have been removed above.
  text = text.replace(/extern "C" \{/, "").replace(/\}\s*$/, "");

  const { structs, functions } = declarations(text.trim(), notes);
  const ops = functions.flatMap(({ name }) => {
    const [, op] = /^gd_encode_(\w+)$/.exec(name) ?? [];
    if (op === undefined) return [];
    const struct = structs.get(`gd_${op}`);
    if (struct === undefined) throw new Error(`${name} has no struct`);
    const { size, note } = struct;
    const elementwise = note.elementwise === true;
    const parameters = argumentsOf(struct, options);
    if (elementwise && !isElementwise(parameters)) throw new Error(`gd_${op}: an elementwise op has two tensors and out`);
    return [{ name: publicName(op), struct: `gd_${op}`, encode: name, size, module: note.in, elementwise, arguments: parameters }];
  });
  return { constants, options, structs, functions, ops, operations: operationsOf(ops) };
}

function isElementwise(parameters) {
  return parameters.length === 3 && parameters.every(({ kind, optional }) => kind === "tensor" && !optional) && parameters[2].name === "out";
}

/** The elementwise ops as the values of an option, which only Swift and the kernels know. */
function operationsOf(ops) {
  const values = ops.filter(({ elementwise }) => elementwise).map(({ name, struct }, i) => ({ name, constant: `GD_ELEMENTWISE_${struct.slice(3).toUpperCase()}`, value: i + 1 }));
  return { name: "ElementwiseOperation", of: undefined, text: "the function of an elementwise op", values };
}

/** A directive, or an annotation that stands alone: of an option, or of a choice among one's values. */
function readLine(line, notes, constants, options) {
  const alone = /^\$(\d+)\$$/.exec(line);
  if (alone) {
    const note = notes[Number(alone[1])];
    options.push(note.startsWith("choice ") ? choiceOf(note, options) : optionOf(note));
    return;
  }
  const define = /^#define (GD_[A-Z0-9_]+) (\d+)(?:\s+\$(\d+)\$)?$/.exec(line);
  if (define) {
    const [, name, value, note] = define;
    if (constants.some((constant) => constant.name === name)) throw new Error(`${name} is defined twice`);
    constants.push({ name, value: Number(value) });
    if (note !== undefined) valueOf(name, Number(value), notes[Number(note)], options);
  } else if (!plainDirective.test(line)) {
    throw new Error(`unknown directive: ${line}`);
  }
}

function declarations(text, notes) {
  const structs = new Map();
  const functions = [];
  let rest = text;
  while (rest !== "") {
    let match;
    if ((match = /^typedef (\w+) (\w+);/.exec(rest))) {
      const [base, alias] = [scalars[match[1]], scalars[match[2]]];
      if (!base || !alias || base.size !== alias.size) throw new Error(`unknown typedef: ${match[0]}`);
    } else if ((match = /^typedef struct (\w+) \{([^{}]*)\} (\w+);[ \t]*(?:\$(\d+)\$)?/.exec(rest))) {
      if (match[1] !== match[3]) throw new Error(`struct ${match[1]} is named ${match[3]}`);
      if (structs.has(match[1])) throw new Error(`struct ${match[1]} is declared twice`);
      const note = match[4] === undefined ? {} : readNote(notes[Number(match[4])]);
      structs.set(match[1], { ...layoutOf(match[1], match[2], structs, notes), note });
    } else if ((match = /^([\w ]+?[ *]+)(gd_\w+|napi_register_module_v1)\(([^()]*)\);/.exec(rest))) {
      const parameters = match[3].trim() === "void" ? [] : match[3].split(",").map((p) => parameterOf(p, structs));
      functions.push({ name: match[2], args: parameters, returns: returnOf(match[1].trim()) });
    } else {
      throw new Error(`cannot parse: ${rest.slice(0, 80)}`);
    }
    rest = rest.slice(match[0].length).trim();
  }
  return { structs, functions };
}

/** Offsets by C's rules. Padding is refused: its bytes would be undefined. */
function layoutOf(struct, body, structs, notes) {
  const fields = [];
  let offset = 0;
  let align = 1;
  const declarations = [...body.matchAll(/([^;$]+);[ \t]*(?:\$(\d+)\$)?/g)];
  if (body.replace(/([^;$]+);[ \t]*(?:\$(\d+)\$)?/g, "").trim() !== "") throw new Error(`struct ${struct}: cannot parse "${body.trim()}"`);
  for (const [, text, noted] of declarations) {
    const declaration = text.trim().replace(/\s+/g, " ");
    const match = /^(const )?(\w+) (\*?)(\w+(?:, \w+)*)(?:\[(\d+)\])?$/.exec(declaration);
    if (!match) throw new Error(`struct ${struct}: cannot parse "${declaration}"`);
    const [, , type, star, names, count] = match;
    const nested = structs.get(type);
    const kind = star ? pointer : nested ? { size: nested.size, align: nested.align, ffi: type } : scalars[type];
    if (!kind) throw new Error(`struct ${struct}: unknown type ${type}`);
    if (type === "char" && count === undefined) throw new Error(`struct ${struct}: a single char`);
    if (type !== "char" && type !== "uint32_t" && count !== undefined) throw new Error(`struct ${struct}: an array of ${type}`);
    const note = noted === undefined ? {} : readNote(notes[Number(noted)]);
    for (const name of names.split(", ")) {
      if (fields.some((field) => field.name === name)) throw new Error(`struct ${struct}: ${name} twice`);
      const fieldAlign = kind.align ?? kind.size;
      if (offset % fieldAlign !== 0) throw new Error(`struct ${struct}: padding before ${name}`);
      // In memory a handle is a 64-bit integer; as an argument it is passed as a pointer.
      const plain = type === "gd_handle" ? "u64" : kind.ffi;
      fields.push({ name, offset, type: type === "char" || count === undefined ? plain : `${plain}[${count}]`, note });
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
