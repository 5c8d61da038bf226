/** One function, one statement of variables, one explicit instantiation. */
import { attributesIn, stringValue, type Range, type Tokens } from "./cursor.ts";
import { parseParameters, type Parameter } from "./parameters.ts";
import type { Declaration, FunctionDeclaration, Instantiation, Scope } from "./syntax.ts";
import { SourceError } from "./tokens.ts";

const stages = new Set(["kernel", "vertex", "fragment"]);

/** The index after the semicolon that ends the statement at `index`. */
export function statementEnd(tokens: Tokens, index: number, limit: number): number {
  for (let i = index; i < limit; i += 1) {
    const text = tokens.text(i);
    if (tokens.at(i).kind !== "punctuation") continue;
    if (text === ";") return i + 1;
    if (text === "(" || text === "[" || text === "{") i = tokens.close(i, limit) - 1;
  }
  throw new SourceError(tokens.at(index), "a declaration does not end");
}

export function parseInstantiation(tokens: Tokens, range: Range, scope: Scope): Instantiation {
  const attributes = attributesIn(tokens, range);
  const host = attributes.find((a) => a.name === "host_name");
  let kernel = attributes.some((a) => a.name === "kernel");
  // The instantiated function is the last template-id outside decltype(...), before the parameter list if there is one.
  let end = range.end - 1;
  if (tokens.is(end - 1, ")")) {
    let depth = 0;
    let i = end - 1;
    for (; i > range.begin; i -= 1) {
      if (tokens.is(i, ")")) depth += 1;
      if (tokens.is(i, "(")) depth -= 1;
      if (depth === 0) break;
    }
    end = i;
  }
  let angle = -1;
  for (let i = range.begin + 1; i < end; i += 1) {
    if (tokens.isAttribute(i)) i = tokens.close(i) - 1;
    else if (tokens.text(i) === "kernel") kernel = true;
    else if (tokens.is(i, "(")) i = tokens.close(i) - 1;
    else if (tokens.is(i, "<")) {
      const after = tokens.closeAngle(i, end);
      if (after === end) angle = i;
      if (after > 0) i = after - 1;
    }
  }
  let begin = angle < 0 ? end - 1 : angle - 1;
  while (tokens.is(begin - 1, "::")) begin -= 2;
  const nameEnd = angle < 0 ? end : angle;
  return {
    kind: "instantiation",
    scope,
    place: tokens.at(range.begin),
    range,
    kernel,
    hostName: host === undefined ? null : stringValue(host.argument),
    name: tokens.slice({ begin, end: nameEnd }).replace(/\s/g, ""),
    arguments: angle < 0 ? "" : tokens.slice({ begin: angle, end }),
  };
}

export function parseFunction(
  tokens: Tokens,
  begin: number,
  first: number,
  paren: number,
  limit: number,
  scope: Scope,
  template: readonly Parameter[] | null,
  found: Declaration[],
): number {
  let nameBegin = paren - 1;
  for (let k = paren - 1; k >= first; k -= 1) if (tokens.text(k) === "operator") nameBegin = k;
  if (tokens.is(nameBegin, ">")) {
    // A specialisation: f<int>(...).
    let depth = 0;
    for (; nameBegin > first; nameBegin -= 1) {
      if (tokens.is(nameBegin, ">")) depth += 1;
      if (tokens.is(nameBegin, "<")) depth -= 1;
      if (depth === 0) break;
    }
    nameBegin -= 1;
  }
  const specifierEnd = nameBegin;
  const close = tokens.close(paren, limit);
  let i = close;
  while (i < limit && !tokens.is(i, ";") && !tokens.is(i, "{")) {
    if (tokens.is(i, ":")) {
      // Constructor initialisers: name(...) or name{...}, separated by commas.
      i += 1;
      for (;;) {
        while (!tokens.is(i, "(") && !tokens.is(i, "{")) i += 1;
        i = tokens.close(i, limit);
        if (!tokens.is(i, ",")) break;
        i += 1;
      }
    } else i = tokens.isAttribute(i) || tokens.is(i, "(") ? tokens.close(i) : i + 1;
  }
  const trailing = { begin: close, end: i };
  const bodyEnd = tokens.is(i, "{") ? tokens.close(i, limit) : -1;
  const end = bodyEnd < 0 ? i + 1 : bodyEnd;
  const specifiers = { begin: first, end: specifierEnd };
  const attributes = attributesIn(tokens, { begin, end: i });
  const outside = attributes.filter((a) => a.range.begin < paren || a.range.begin >= close);
  let stage: FunctionDeclaration["stage"] = null;
  for (let k = first; k < specifierEnd; k += 1) {
    if (stages.has(tokens.text(k)) && tokens.isWord(k)) stage = tokens.text(k) as "kernel";
  }
  for (const a of outside) if (stages.has(a.name)) stage = a.name as "kernel";
  found.push({
    kind: "function",
    name: tokens.slice({ begin: nameBegin, end: paren }).replace(/\s*<.*/, ""),
    scope,
    place: tokens.at(nameBegin),
    range: { begin, end },
    template,
    specifiers,
    trailing,
    attributes: outside,
    stage,
    parameters: parseParameters(tokens, { begin: paren + 1, end: close - 1 }),
    parameterRange: { begin: paren + 1, end: close - 1 },
    body: bodyEnd < 0 ? null : { begin: i + 1, end: bodyEnd - 1 },
  });
  return end;
}

export function parseVariables(
  tokens: Tokens,
  begin: number,
  first: number,
  limit: number,
  scope: Scope,
  template: boolean,
  found: Declaration[],
): number {
  const end = statementEnd(tokens, first, limit);
  let previous: Range | null = null;
  for (const part of tokens.split({ begin: first, end: end - 1 })) {
    let nameEnd = part.begin;
    while (nameEnd < part.end && !/^[=[{:]$/.test(tokens.text(nameEnd))) {
      if (tokens.is(nameEnd, "<") && tokens.isWord(nameEnd - 1)) {
        const after: number = tokens.closeAngle(nameEnd, part.end);
        nameEnd = after > 0 ? after : nameEnd + 1;
      } else if (tokens.is(nameEnd, "(")) nameEnd = tokens.close(nameEnd);
      else nameEnd += 1;
    }
    const name = nameEnd - 1;
    let suffixEnd = nameEnd;
    while (tokens.is(suffixEnd, "[") && !tokens.isAttribute(suffixEnd)) suffixEnd = tokens.close(suffixEnd);
    const after = tokens.skipAttributes(suffixEnd);
    const type: Range = previous ?? { begin: part.begin, end: name };
    previous = type;
    found.push({
      kind: "variable",
      name: tokens.text(name),
      scope,
      place: tokens.at(name),
      range: { begin, end },
      type,
      template,
      suffix: { begin: nameEnd, end: suffixEnd },
      attributes: attributesIn(tokens, part),
      initializer: after < part.end ? { begin: tokens.is(after, "=") ? after + 1 : after, end: part.end } : null,
    });
  }
  return end;
}
