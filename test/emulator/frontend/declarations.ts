/**
 * Declarations of a translation unit, as far down as function bodies. Expressions and statements stay tokens: translating
 * Metal to C++ needs to know what is declared, not what it computes.
 */
import { attributesIn, type Attribute, type Range, type Tokens } from "./cursor.ts";
import { parseParameters, type Parameter } from "./parameters.ts";
import { SourceError, type Place } from "./tokens.ts";

export type Scope = { readonly path: readonly string[]; readonly inClass: boolean };

export type FunctionDeclaration = {
  readonly kind: "function";
  readonly name: string;
  readonly scope: Scope;
  readonly place: Place;
  /** From its template header or first specifier to the end of its body or the semicolon. */
  readonly range: Range;
  readonly template: readonly Parameter[] | null;
  /** Specifiers and return type. */
  readonly specifiers: Range;
  readonly parameters: readonly Parameter[];
  readonly parameterRange: Range;
  /** What stands between ")" and the body: cv-qualifiers, address spaces, a constructor's initialisers. */
  readonly trailing: Range;
  /** Inside the braces; null for a declaration without a body. */
  readonly body: Range | null;
  readonly attributes: readonly Attribute[];
  /** The keyword or attribute that makes it an entry point. */
  readonly stage: "kernel" | "vertex" | "fragment" | null;
};

export type VariableDeclaration = {
  readonly kind: "variable";
  readonly name: string;
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
  readonly type: Range;
  /** Array bounds: "[4]", or "". */
  readonly suffix: Range;
  readonly initializer: Range | null;
  readonly attributes: readonly Attribute[];
  readonly template: boolean;
};

export type StructDeclaration = {
  readonly kind: "struct";
  readonly name: string;
  readonly keyword: "struct" | "class" | "union";
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
  readonly template: readonly Parameter[] | null;
  readonly bases: Range | null;
  readonly members: readonly Declaration[];
  readonly body: Range;
};

export type AliasDeclaration = {
  readonly kind: "alias";
  readonly name: string;
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
};

/** template [[host_name("x")]] kernel void f<int>(...);  or with decltype or a typedef for its type. */
export type Instantiation = {
  readonly kind: "instantiation";
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
  readonly hostName: string | null;
  readonly kernel: boolean;
  /** The function's name as written, without its arguments. */
  readonly name: string;
  /** "<float, 4>" as written. */
  readonly arguments: string;
};

export type OtherDeclaration = {
  readonly kind: "using" | "enum" | "assertion" | "pragma";
  readonly name: string;
  readonly scope: Scope;
  readonly place: Place;
  readonly range: Range;
};

export type Declaration =
  | FunctionDeclaration
  | VariableDeclaration
  | StructDeclaration
  | AliasDeclaration
  | Instantiation
  | OtherDeclaration;

const stages = new Set(["kernel", "vertex", "fragment"]);

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
  tokens: Tokens, keyword: number, brace: number, limit: number, scope: Scope,
  template: readonly Parameter[] | null, begin: number, name: string,
): StructDeclaration {
  const close = tokens.close(brace, limit);
  let colon = keyword;
  while (colon < brace && !tokens.is(colon, ":")) colon += 1;
  const body = { begin: brace + 1, end: close - 1 };
  return {
    kind: "struct", name, keyword: tokens.text(keyword) as StructDeclaration["keyword"], scope, place: tokens.at(keyword),
    range: { begin, end: close }, template, bases: colon < brace ? { begin: colon + 1, end: brace } : null, body,
    members: parseDeclarations(tokens, body, { path: [...scope.path, name], inClass: true }),
  };
}

function parseInstantiation(tokens: Tokens, range: Range, scope: Scope): Instantiation {
  const attributes = attributesIn(tokens, range);
  const host = attributes.find((a) => a.name === "host_name");
  let kernel = attributes.some((a) => a.name === "kernel");
  // What is instantiated is the last template-id outside decltype(...), before the parameter list if there is one.
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
    kind: "instantiation", scope, place: tokens.at(range.begin), range, kernel,
    hostName: host === undefined ? null : host.argument.replace(/^"|"$/g, ""),
    name: tokens.slice({ begin, end: nameEnd }).replace(/\s/g, ""),
    arguments: angle < 0 ? "" : tokens.slice({ begin: angle, end }),
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
  while (/^(static|constant|constexpr|const|inline|friend)$/.test(tokens.text(head))) head = tokens.skipAttributes(head + 1);
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
  tokens: Tokens, begin: number, keyword: number, brace: number, limit: number, scope: Scope,
  template: readonly Parameter[] | null, found: Declaration[],
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

function parseFunction(
  tokens: Tokens, begin: number, first: number, paren: number, limit: number, scope: Scope,
  template: readonly Parameter[] | null, found: Declaration[],
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
    kind: "function", name: tokens.slice({ begin: nameBegin, end: paren }).replace(/\s*<.*/, ""), scope,
    place: tokens.at(nameBegin), range: { begin, end }, template, specifiers, trailing, attributes: outside, stage,
    parameters: parseParameters(tokens, { begin: paren + 1, end: close - 1 }),
    parameterRange: { begin: paren + 1, end: close - 1 },
    body: bodyEnd < 0 ? null : { begin: i + 1, end: bodyEnd - 1 },
  });
  return end;
}

function parseVariables(
  tokens: Tokens, begin: number, first: number, limit: number, scope: Scope, template: boolean, found: Declaration[],
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
      kind: "variable", name: tokens.text(name), scope, place: tokens.at(name), range: { begin, end }, type, template,
      suffix: { begin: nameEnd, end: suffixEnd }, attributes: attributesIn(tokens, part),
      initializer: after < part.end ? { begin: tokens.is(after, "=") ? after + 1 : after, end: part.end } : null,
    });
  }
  return end;
}
