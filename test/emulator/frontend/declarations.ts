/**
 * Declarations of a translation unit, down to function bodies. Expressions and statements stay tokens: translating
 * Metal to C++ needs to know what is declared, not what it computes.
 */
import type { Range, Tokens } from "./cursor.ts";
import { parseFunction, parseInstantiation, parseVariables, statementEnd } from "./declarators.ts";
import { parseParameters, type Parameter } from "./parameters.ts";
import type { Declaration, OtherDeclaration, Scope, StructDeclaration } from "./syntax.ts";
import { SourceError } from "./tokens.ts";

/** The declarations of a namespace, class or whole unit; those of nested namespaces come in line. */
export function parseDeclarations(tokens: Tokens, range: Range, scope: Scope): Declaration[] {
  const found: Declaration[] = [];
  let i = range.begin;
  while (i < range.end) {
    const token = tokens.at(i);
    const single = (kind: OtherDeclaration["kind"], end: number, name = ""): void => {
      found.push({ kind, name, scope, place: token, range: { begin: i, end } });
      i = end;
    };
    if (token.kind === "pragma") single("pragma", i + 1);
    else if (tokens.is(i, ";")) i += 1;
    else if (scope.inClass && /^(public|private|protected)$/.test(token.text) && tokens.is(i + 1, ":")) i += 2;
    else if (token.text === "namespace" || (token.text === "inline" && tokens.is(i + 1, "namespace"))) {
      i = parseNamespace(tokens, i, range.end, scope, found);
    } else if (token.text === "extern" && tokens.at(i + 1).kind === "string" && tokens.is(i + 2, "{")) {
      const end = tokens.close(i + 2, range.end);
      found.push(...parseDeclarations(tokens, { begin: i + 3, end: end - 1 }, scope));
      i = end;
    } else if (token.text === "static_assert" || token.text === "_Static_assert") {
      single("assertion", statementEnd(tokens, i, range.end));
    } else if (token.text === "using" && tokens.is(i + 2, "=")) {
      const end = statementEnd(tokens, i, range.end);
      found.push({ kind: "alias", name: tokens.text(i + 1), scope, place: token, range: { begin: i, end } });
      i = end;
    } else if (token.text === "using") single("using", statementEnd(tokens, i, range.end));
    else if (token.text === "typedef") i = parseTypedef(tokens, i, range.end, scope, found);
    else if (token.text === "template" && !tokens.is(i + 1, "<")) {
      const end = statementEnd(tokens, i, range.end);
      found.push(parseInstantiation(tokens, { begin: i, end }, scope));
      i = end;
    } else i = parseGeneral(tokens, i, range.end, scope, found);
  }
  return found;
}

function parseNamespace(tokens: Tokens, index: number, limit: number, scope: Scope, found: Declaration[]): number {
  let i = tokens.is(index, "inline") ? index + 2 : index + 1;
  const path = [...scope.path];
  while (i < limit && !tokens.is(i, "{")) {
    if (tokens.is(i, "=")) return statementEnd(tokens, index, limit);
    if (tokens.isWord(i)) path.push(tokens.text(i));
    i = tokens.isAttribute(i) ? tokens.close(i) : i + 1;
  }
  const end = tokens.close(i, limit);
  found.push(...parseDeclarations(tokens, { begin: i + 1, end: end - 1 }, { path, inClass: false }));
  return end;
}

function parseTypedef(tokens: Tokens, index: number, limit: number, scope: Scope, found: Declaration[]): number {
  const end = statementEnd(tokens, index, limit);
  const place = tokens.at(index);
  const define = index + 1;
  if (/^(struct|class|union)$/.test(tokens.text(define))) {
    let brace = define + 1;
    while (brace < end && !tokens.is(brace, "{") && !tokens.is(brace, ";")) brace += 1;
    if (tokens.is(brace, "{")) {
      // typedef struct A { ... } B;  declares both.
      const tag = tokens.isWord(define + 1) ? tokens.text(define + 1) : "";
      const name = tokens.text(end - 2);
      found.push(structAt(tokens, define, brace, limit, scope, null, index, tag === "" ? name : tag));
    }
  }
  let last = end - 2;
  while (last > index && tokens.is(last, "]")) {
    while (last > index && !tokens.is(last, "[")) last -= 1;
    last -= 1;
  }
  found.push({ kind: "alias", name: tokens.text(last), scope, place, range: { begin: index, end } });
  return end;
}

function structAt(
  tokens: Tokens,
  keyword: number,
  brace: number,
  limit: number,
  scope: Scope,
  template: readonly Parameter[] | null,
  begin: number,
  name: string,
): StructDeclaration {
  const close = tokens.close(brace, limit);
  let colon = keyword;
  while (colon < brace && !tokens.is(colon, ":")) colon += 1;
  const body = { begin: brace + 1, end: close - 1 };
  return {
    kind: "struct",
    name,
    keyword: tokens.text(keyword) as StructDeclaration["keyword"],
    scope,
    place: tokens.at(keyword),
    range: { begin, end: close },
    template,
    bases: colon < brace ? { begin: colon + 1, end: brace } : null,
    body,
    members: parseDeclarations(tokens, body, { path: [...scope.path, name], inClass: true }),
  };
}

function parseGeneral(tokens: Tokens, index: number, limit: number, scope: Scope, found: Declaration[]): number {
  let i = index;
  let template: Parameter[] | null = null;
  while (tokens.is(i, "template")) {
    const after = tokens.closeAngle(i + 1, limit);
    if (after < 0) throw new SourceError(tokens.at(i), "a template header is not closed");
    template = [...(template ?? []), ...parseParameters(tokens, { begin: i + 2, end: after - 1 })];
    i = tokens.skipAttributes(after);
  }
  if (template !== null && tokens.is(i, "using")) {
    const end = statementEnd(tokens, i, limit);
    found.push({ kind: "alias", name: tokens.text(i + 1), scope, place: tokens.at(i), range: { begin: index, end } });
    return end;
  }
  const begin = i;
  let head = tokens.skipAttributes(i);
  while (/^(static|constant|constexpr|const|inline|friend)$/.test(tokens.text(head)))
    head = tokens.skipAttributes(head + 1);
  if (/^(struct|class|union|enum)$/.test(tokens.text(head))) {
    let brace = head + 1;
    while (brace < limit && !/^[{;(=]$/.test(tokens.text(brace))) {
      brace = tokens.isAttribute(brace) ? tokens.close(brace) : brace + 1;
    }
    if (tokens.is(brace, "{") || tokens.is(brace, ";")) {
      return parseTagged(tokens, index, head, brace, limit, scope, template, found);
    }
  }
  // A function has a parenthesised list after its name at the top level; a variable ends or is initialised before one.
  let paren = -1;
  for (let k = head; k < limit; k += 1) {
    const text = tokens.text(k);
    if (tokens.at(k).kind === "pragma") continue;
    if (tokens.isAttribute(k)) k = tokens.close(k) - 1;
    else if (/^(decltype|alignas|__attribute__)$/.test(text) && tokens.is(k + 1, "(")) k = tokens.close(k + 1) - 1;
    else if (text === "operator") {
      k += tokens.is(k + 1, "(") ? 2 : 1;
      while (!tokens.is(k + 1, "(")) k += 1;
    } else if (text === "<" && tokens.isWord(k - 1)) {
      const after = tokens.closeAngle(k, limit);
      if (after > 0) k = after - 1;
    } else if (text === "(") {
      paren = k;
      break;
    } else if (text === ";" || text === "=" || text === "[" || text === "{" || text === ",") break;
  }
  if (paren >= 0) return parseFunction(tokens, index, begin, paren, limit, scope, template, found);
  return parseVariables(tokens, index, begin, limit, scope, template !== null, found);
}

function parseTagged(
  tokens: Tokens,
  begin: number,
  keyword: number,
  brace: number,
  limit: number,
  scope: Scope,
  template: readonly Parameter[] | null,
  found: Declaration[],
): number {
  const end = statementEnd(tokens, keyword, limit);
  const place = tokens.at(keyword);
  if (tokens.text(keyword) === "enum") {
    const at = /^(class|struct)$/.test(tokens.text(keyword + 1)) ? keyword + 2 : keyword + 1;
    const name = tokens.isWord(at) ? tokens.text(at) : "";
    found.push({ kind: "enum", name, scope, place, range: { begin, end } });
    return end;
  }
  if (tokens.is(brace, ";")) return end;
  const nameAt = tokens.skipAttributes(keyword + 1);
  const name = tokens.isWord(nameAt) ? tokens.text(nameAt) : "";
  found.push(structAt(tokens, keyword, brace, limit, scope, template, begin, name));
  return end;
}
