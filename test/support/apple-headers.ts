/** Compares Swift declarations of Metal's with the Objective-C headers that Swift imports them from, as far as its importer's rules are simple. */

/** A line of apple-api.txt, with the page under which it is listed. */
export interface Declaration {
  readonly page: string;
  readonly text: string;
}

export function declarations(list: string): Declaration[] {
  const found: Declaration[] = [];
  let page = "";
  for (const line of list.split("\n")) {
    if (line.startsWith("#") || line.trim() === "") continue;
    if (line.startsWith("  ")) found.push({ page, text: line.trim() });
    else page = line.trim();
  }
  return found;
}

interface Constant {
  readonly name: string;
  readonly value: string | undefined;
}

/** The text of headers, without comments and availability. */
export class HeaderFiles {
  readonly #text: string;

  constructor(texts: readonly string[]) {
    this.#text = texts.map(plain).join("\n");
  }

  /** Whether a type or function of this name is declared. */
  has(name: string): boolean {
    return new RegExp(`@(protocol|interface)\\s+${name}\\b(?!\\s*[;,])|\\bstruct\\s+${name}\\b|(NS|MTL)_\\w+\\([^)]*\\b${name}\\)|\\^${name}\\)|}\\s*${name}\\s*;|\\b${name}\\s*\\(`, "i").test(this.#text);
  }

  /** The declarations of all protocols, classes and categories with this name. */
  members(name: string): string {
    const bodies = [...this.#text.matchAll(new RegExp(`@(?:protocol|interface)\\s+${name}\\b(?!\\s*[;,])([\\s\\S]*?)@end`, "gi"))].map((match) => match[1]!);
    const structs = [...this.#text.matchAll(new RegExp(`struct\\s*(?:${name})?\\s*{([^}]*)}\\s*${name}\\s*;`, "gi"))].map((match) => match[1]!);
    return [...bodies, ...structs].join("\n");
  }

  /** In the order of the header; empty if no enumeration has this name. */
  constants(name: string): Constant[] {
    const body = new RegExp(`(?:NS|MTL)_\\w+\\([^)]*\\b${name}\\)\\s*{([^}]*)}`, "i").exec(this.#text)?.[1] ?? "";
    return [...body.matchAll(/(\w+)\s*(?:=\s*([^,]*))?(?:,|$)/g)].map((match) => ({ name: match[1]!, value: match[2]?.trim() }));
  }
}

/** Parentheses nest in availability: each macro's call is removed up to its end. */
function plain(text: string): string {
  let code = text.replace(/\/\*[\s\S]*?\*\//g, " ").replace(/\/\/[^\n]*/g, " ");
  for (let found = /\bAPI_\w+\s*\(/.exec(code); found !== null; found = /\bAPI_\w+\s*\(/.exec(code)) {
    let depth = 0;
    let end = found.index + found[0].length - 1;
    do {
      if (code[end] === "(") depth += 1;
      if (code[end] === ")") depth -= 1;
      end += 1;
    } while (depth > 0 && end < code.length);
    code = `${code.slice(0, found.index)} ${code.slice(end)}`;
  }
  return code;
}

/** `newBufferWithLength:options:` and `makeBuffer(length:options:)` are both "bufferlengthoptions". */
const same = (words: string) => words.toLowerCase().replace(/^(new|make)/, "").replaceAll("with", "").replaceAll("atindex", "index").replace(/[^a-z0-9]/g, "");

/** A description of the difference from the headers; undefined if there is none. */
export function problemOf({ page, text }: Declaration, headers: HeaderFiles): string | undefined {
  const parts = page.split("/").slice(2);
  const name = (part: string | undefined) => (part ?? "").replace(/-swift\.\w+$/, "");
  const at = (problem: string) => `${page}: ${text}: ${problem}`;
  const type = /^(?:protocol|class|struct|enum|typealias) (\w+)/.exec(text)?.[1];
  if (type !== undefined) return type === "Code" || headers.has(type) ? undefined : at("not declared");
  if (parts.length === 1) {
    const free = /^func (\w+)/.exec(text)?.[1];
    // An error's structure has a code, whatever its header says.
    return free === undefined || headers.has(free) ? undefined : at("not declared");
  }
  const owner = name(parts.at(-2) === "code" ? parts.at(-3) : parts.at(-2));
  const member = /^(?:case|static var|var|func) `?(\w+)`?/.exec(text)?.[1];
  if (member === undefined) return /^init\(/.test(text) ? undefined : at("not understood");
  if (/^(case|static var) /.test(text)) return constantProblem(text.startsWith("case "), owner, member, headers, at);
  const body = headers.members(owner);
  return text.startsWith("func ") ? methodProblem(text, body, at) : propertyProblem(text, member, body, at);
}

type At = (problem: string) => string;

function constantProblem(isCase: boolean, owner: string, member: string, headers: HeaderFiles, at: At): string | undefined {
  const constants = headers.constants(owner);
  const ends = (constant: Constant) => same(constant.name).endsWith(same(member).replace(/^version/, ""));
  const place = constants.findIndex(ends);
  const found = constants[place];
  if (found === undefined) return at("no constant of this name");
  // Options become properties, whatever their names; among an enumeration's constants with the same value, the first is the case.
  if (!/^mtl\w*error$|kind$/i.test(owner)) return undefined;
  const first = found.value === undefined ? place : constants.findIndex(({ value }) => value === found.value);
  if (isCase && first !== place) return at(`another name of ${constants[first]!.name}: a static property`);
  if (!isCase && first === place) return at("is a case");
  return undefined;
}

function methodProblem(text: string, body: string, at: At): string | undefined {
  const open = text.indexOf("(");
  const labels = parameters(text.slice(open + 1)).map((parameter) => /^(\w+)/.exec(parameter)![1]!);
  const wanted = same(text.slice(5, open) + labels.filter((label) => label !== "_").join(""));
  for (const [, result, rest] of body.matchAll(/^\s*-\s*\(([^)]*(?:\([^)]*\))*[^)]*)\)\s*([^;]+);/gm)) {
    const pieces = [...rest!.replace(/\((?:[^()]|\([^()]*\))*\)/g, "").matchAll(/(\w+)\s*(:)?/g)];
    // In "setBuffer: buffer offset: offset", the words with a colon; in "commit", the word itself.
    const words = pieces.filter(([, , colon]) => colon !== undefined).map(([, word]) => word!);
    const selector = words.length === 0 ? [pieces[0]?.[1] ?? ""] : words;
    if (/\bthrows\b/.test(text) && selector.at(-1) === "error") selector.pop();
    if (same(selector.join("")) !== wanted || (words.length === 0) !== (labels.length === 0)) continue;
    const optional = /\?$/.test(text.split("->").at(-1)!.trim()) && text.includes("->");
    const nullable = /\bnullable\b|_Nullable/.test(result!);
    return nullable && !optional && !/\bthrows\b/.test(text) ? at("nullable in the header") : undefined;
  }
  return at("no method of this selector");
}

/** Up to the closing parenthesis, split at the commas outside any inner parentheses. */
function parameters(text: string): string[] {
  const found: string[] = [];
  let depth = 0;
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    if ("([<".includes(text[i]!)) depth += 1;
    if (depth === 0 && (text[i] === "," || text[i] === ")")) {
      found.push(text.slice(from, i).trim());
      from = i + 1;
      if (text[i] === ")") break;
    } else if (")]".includes(text[i]!) || (text[i] === ">" && text[i - 1] !== "-")) depth -= 1;
  }
  return found.filter((parameter) => parameter !== "");
}

function propertyProblem(text: string, member: string, body: string, at: At): string | undefined {
  const property = new RegExp(`@property\\s*(\\([^)]*\\))?[^;]*\\b${member}\\s*;`, "i").exec(body);
  if (property === null) return new RegExp(`\\b${member}\\b\\s*[,;]`).test(body) && !body.includes("@property") ? undefined : at("no property of this name");
  const readonly = /\breadonly\b/.test(property[1] ?? "");
  if (readonly && /\bset\b/.test(text)) return at("readonly in the header");
  if (!readonly && !/\bset\b/.test(text)) return at("not readonly in the header");
  return undefined;
}
