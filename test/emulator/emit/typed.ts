/**
 * The C++ that is only checked: address spaces are part of the types, so a missing `device` or a pointer that goes from
 * one space to another does not compile. Vector constructors and casts become calls, since clang's own vectors have none.
 */
import type { Tokens } from "../frontend/cursor.ts";
import { allDeclarations, type Unit } from "../frontend/unit.ts";
import { commonEdits, threadgroupVariables } from "./common.ts";
import { Edits } from "./edits.ts";

const spaces = /^(device|constant|threadgroup|thread)$/;
const vectorName = /^(packed_)?(bool|char|uchar|short|ushort|int|uint|long|ulong|half|bfloat|float)[234]$/;

export function emitTyped(unit: Unit): string {
  const edits = new Edits(unit.tokens);
  commonEdits(unit, edits);
  for (const d of unit.declarations) {
    if (d.kind !== "instantiation" || !unit.kernels.some((k) => k.place === d.place)) continue;
    // commonEdits removed it; here its body is to be checked.
    edits.insertBefore(d.range.begin, `template decltype(${d.name}${d.arguments}) ${d.name}${d.arguments};`);
  }
  constantEdits(unit, edits);
  for (const d of allDeclarations(unit.declarations)) {
    if (d.kind !== "function") continue;
    for (let i = d.trailing.begin; i < d.trailing.end; i += 1) {
      if (spaces.test(unit.tokens.text(i))) edits.replace({ begin: i, end: i + 1 }, "");
    }
    if (d.body === null || d.stage !== "kernel") continue;
    for (const v of threadgroupVariables(unit.tokens, d.body)) {
      if (unit.tokens.text(v.statement.begin) !== "static") edits.insertBefore(v.statement.begin, "static ");
    }
  }
  threadEdits(unit, edits);
  vectorEdits(unit, edits);
  return [
    "#define device __attribute__((address_space(1)))",
    "#define constant const __attribute__((address_space(2)))",
    "#define threadgroup __attribute__((address_space(3)))",
    "#define thread",
    "#define coherent(space)",
    edits.apply(),
    "",
  ].join("\n");
}

/**
 * Thread memory is the default in C++, so `thread` is simply dropped. Two things would then compile that Metal's
 * address space rejects: a template parameter that becomes a type of another space, and a constant reference to an
 * object elsewhere, for which C++ would make a copy.
 */
function threadEdits(unit: Unit, edits: Edits): void {
  const { tokens } = unit;
  const plain = (range: { begin: number; end: number }): string =>
    tokens.slice(range).replace(/# \d+ "[^"]*"( \d)*/g, "").replace(/\[\[.*?\]\]/g, "").trim();
  for (const d of allDeclarations(unit.declarations)) {
    if (d.kind !== "function" || d.body === null) continue;
    const ours = d.parameters.filter((p) => p.space === "thread" && (p.pointer || p.reference));
    const named = ours.filter((p) => p.name !== "" && !p.pack);
    const checks = named.map((p) => `static_assert(emu::is_thread<decltype(${p.name})>, "${p.name} has another address space than thread");`);
    if (checks.length > 0) edits.insertBefore(d.body.begin, checks.join(" "));
    const deleted: string[] = [];
    for (const p of ours.filter(({ constant, reference, pointer }) => constant && reference && !pointer)) {
      for (const space of ["device", "constant", "threadgroup"]) {
        const parameters = d.parameters.map((q) => (q === p ? plain(q.range).replace(/\bthread\b/, space) : plain(q.range)));
        const head = plain({ begin: d.range.begin, end: d.parameterRange.begin }).replace(/\($/, "").trim();
        const constant = /^\s*const\b/.test(tokens.slice(d.trailing)) ? " const" : "";
        deleted.push(`${head}(${parameters.join(", ")})${constant} = delete;`);
      }
    }
    if (deleted.length > 0) edits.insertAfter(d.range.end - 1, ` ${deleted.join(" ")}`);
  }
}

function constantEdits(unit: Unit, edits: Edits): void {
  const { tokens } = unit;
  const special = new Set([...unit.constants, ...unit.derived].map((c) => c.declaration));
  for (const c of unit.constants) edits.replace(c.declaration.range, `extern constant ${c.type} ${c.name};`);
  const seen = new Set<number>();
  for (const d of unit.declarations) {
    // Program-scope constants need constant initialisers; with constexpr, the compiler checks that.
    if (d.kind !== "variable" || special.has(d) || d.template || d.initializer === null || seen.has(d.range.begin))
      continue;
    seen.add(d.range.begin);
    const text = tokens.slice(d.type);
    if (/\bconstant\b/.test(text) && !/\bconstexpr\b/.test(text)) edits.insertBefore(d.range.begin, "constexpr ");
  }
  for (let i = 0; i + 1 < tokens.list.length; i += 1) {
    if (tokens.text(i) === "is_function_constant_defined") edits.replace({ begin: i, end: i + 1 }, "emu_is_defined");
  }
}

/** Names that may stand for a vector: Metal's own, template parameters, typedefs and using-declarations, in any scope. */
function vectorishNames(tokens: Tokens, unit: Unit): Set<string> {
  const names = new Set<string>();
  for (let i = 0; i + 1 < tokens.list.length; i += 1) {
    const text = tokens.text(i);
    if (vectorName.test(text)) names.add(text);
    else if ((text === "typename" || text === "class") && /^[,<]$/.test(tokens.text(i - 1)) && tokens.isWord(i + 1))
      names.add(tokens.text(i + 1));
    else if (text === "using" && tokens.is(i + 2, "=")) names.add(tokens.text(i + 1));
    else if (text === "typedef") {
      let end = i;
      while (!tokens.is(end, ";")) end = tokens.is(end, "{") || tokens.is(end, "(") ? tokens.close(end) : end + 1;
      if (tokens.isWord(end - 1)) names.add(tokens.text(end - 1));
    }
  }
  for (const d of allDeclarations(unit.declarations)) if (d.kind === "struct") names.delete(d.name);
  return names;
}

function vectorEdits(unit: Unit, edits: Edits): void {
  const { tokens } = unit;
  const names = vectorishNames(tokens, unit);
  for (let i = 0; i < tokens.list.length; i += 1) {
    const text = tokens.text(i);
    if (tokens.isAttribute(i)) {
      i = tokens.close(i) - 1;
    } else if (text === "vec" && tokens.is(i + 1, "<")) {
      const after = tokens.closeAngle(i + 1);
      if (after > 0 && tokens.is(after, "(")) wrap(edits, i, after - 1);
    } else if (text === "static_cast" && names.has(tokens.text(i + 2)) && tokens.is(i + 3, ">")) {
      edits.replace({ begin: i, end: i + 1 }, "emu_make");
      i += 3;
    } else if (names.has(text) && tokens.is(i + 1, "(") && isExpression(tokens, i)) {
      wrap(edits, i, i);
    } else if (
      text === "(" &&
      names.has(tokens.text(i + 1)) &&
      tokens.is(i + 2, ")") &&
      startsOperand(tokens, i + 3) &&
      !endsOperand(tokens, i - 1)
    ) {
      edits.replace({ begin: i, end: i + 3 }, `emu::caster<${tokens.text(i + 1)}>()->*`);
      i += 2;
    }
  }
}

function wrap(edits: Edits, first: number, last: number): void {
  edits.insertBefore(first, "emu_make<");
  edits.insertAfter(last, ">");
}

/** T( ... ) that makes a value, not a declaration such as `T (*f)(int)` or a constructor's own name. */
function isExpression(tokens: Tokens, index: number): boolean {
  if (tokens.is(index + 2, "*") && tokens.isWord(index + 3) && tokens.is(index + 4, ")")) return false;
  const previous = tokens.list[index - 1];
  if (previous === undefined) return false;
  if (previous.kind === "identifier") return /^(return|case|else|do)$/.test(previous.text);
  return !/^(~|\.|->)$/.test(previous.text) && !(previous.text === ">" && !/^[,(=+\-*/]$/.test(tokens.text(index + 1)));
}

function startsOperand(tokens: Tokens, index: number): boolean {
  const token = tokens.list[index];
  if (token === undefined) return false;
  return token.kind === "identifier" || token.kind === "number" || /^[(!~-]$/.test(token.text);
}

/** Is the token before a parenthesis the end of a value, so that the parenthesis is a call or an operator's operand? */
function endsOperand(tokens: Tokens, index: number): boolean {
  const token = tokens.list[index];
  if (token === undefined) return false;
  if (token.kind === "identifier") return !/^(return|case|else|do)$/.test(token.text);
  return token.kind === "number" || /^[)\]]$/.test(token.text);
}
