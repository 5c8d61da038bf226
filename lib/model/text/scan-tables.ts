/**
 * Reads the two long parts of a `tokenizer.json`, its vocabulary and its merges, without JSON.parse, which would make an object with
 * a property for each token and take longer than everything else in loading a tokenizer.
 *
 * It reads the plain form that every known program writes. The caller parses files of another form, and damaged ones, whole.
 */
import { isUtf8 } from "node:buffer";
import { isRecord } from "../../checkpoint/json.ts";
import { TextTable, separator } from "./text-table.ts";
import type { TokenizerTables } from "./tokenizer-tables.ts";

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];
const [blank, zero, nine] = [0x20, 0x30, 0x39];

/** More digits than any id has. */
const mostDigits = 10;

/**
 * @param bytes the file's bytes, which change: texts with escapes and the parts of merges are written in place.
 * @returns undefined for a file that has another form.
 */
export function scanTokenizer(bytes: Uint8Array): TokenizerTables | undefined {
  if (!isUtf8(bytes)) return undefined;
  const vocabAt = findMember(bytes, "vocab", openBrace);
  const mergesAt = findMember(bytes, "merges", openBracket);
  if (vocabAt === undefined || mergesAt === undefined) return undefined;
  const vocab = scanVocabulary(bytes, vocabAt);
  const merged = vocab && scanMerges(bytes, mergesAt);
  if (vocab === undefined || merged === undefined) return undefined;
  // In the rest, a text that occurs nowhere else stands for each part, and the parsed rest shows where the part was.
  const marks = [crypto.randomUUID(), crypto.randomUUID()] as const;
  const cuts = [{ start: vocabAt, end: vocab.end, mark: marks[0] }, { start: mergesAt, end: merged.end, mark: marks[1] }].toSorted((a, b) => a.start - b.start);
  const parts: Uint8Array[] = [];
  let at = 0;
  for (const { start, end, mark } of cuts) {
    if (start < at) return undefined;
    parts.push(bytes.subarray(at, start), Buffer.from(`"${mark}"`));
    at = end;
  }
  const json = parsed(new TextDecoder().decode(Buffer.concat([...parts, bytes.subarray(at)])));
  if (!isRecord(json) || !isRecord(json["model"]) || json["model"]["type"] !== "BPE") return undefined;
  const { vocab: markedVocab, merges: markedMerges, ...model } = json["model"];
  if (markedVocab !== marks[0] || markedMerges !== marks[1]) return undefined;
  return { json: { ...json, model }, tokens: vocab.tokens, ids: vocab.ids, merges: merged.merges };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The place of a member's value, which begins with this byte. A token of the same name has a number as its value. */
function findMember(bytes: Uint8Array, name: string, first: number): number | undefined {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const quoted = `"${name}"`;
  for (let at = all.indexOf(quoted); at >= 0; at = all.indexOf(quoted, at + 1)) {
    const value = after(bytes, skipBlanks(bytes, at + quoted.length), colon);
    if (value >= 0 && bytes[value] === first) return value;
  }
  return undefined;
}

/** Reads an object of ids. `end` is the place after it. */
function scanVocabulary(bytes: Uint8Array, start: number): { readonly tokens: TextTable; readonly ids: readonly number[]; readonly end: number } | undefined {
  const tokens = new TextTable(bytes);
  const ids: number[] = [];
  let at = skipBlanks(bytes, start + 1);
  if (bytes[at] === closeBrace) return { tokens, ids, end: at + 1 };
  for (;;) {
    let end = bytes[at] === quote ? tokens.addQuoted(at + 1) : -1;
    if (end < 0) {
      end = textEnd(bytes, at);
      const length = end < 0 ? -1 : unescaped(bytes, at + 1, end);
      if (length < 0) return undefined;
      tokens.add(at + 1, at + 1 + length);
    }
    const digits = after(bytes, skipBlanks(bytes, end + 1), colon);
    if (digits < 0) return undefined;
    at = digits;
    let id = 0;
    for (let byte = bytes[at]!; byte >= zero && byte <= nine; byte = bytes[++at]!) id = 10 * id + byte - zero;
    if (at === digits || at - digits > mostDigits || (bytes[digits] === zero && at - digits > 1)) return undefined;
    ids.push(id);
    at = skipBlanks(bytes, at);
    if (bytes[at] === closeBrace) return tokens.index() === undefined ? { tokens, ids, end: at + 1 } : undefined;
    at = after(bytes, at, comma);
    if (at < 0) return undefined;
  }
}

/** Reads an array of merges, either all pairs or all texts with a blank. */
function scanMerges(bytes: Uint8Array, start: number): { readonly merges: TextTable; readonly end: number } | undefined {
  const merges = new TextTable(bytes);
  let at = skipBlanks(bytes, start + 1);
  if (bytes[at] === closeBracket) return { merges, end: at + 1 };
  const pairs = bytes[at] === openBracket;
  for (;;) {
    at = pairs ? scanPair(bytes, at, merges) : scanMerge(bytes, at, merges);
    if (at < 0) return undefined;
    at = skipBlanks(bytes, at);
    if (bytes[at] === closeBracket) {
      merges.index();
      return { merges, end: at + 1 };
    }
    at = after(bytes, at, comma);
    if (at < 0) return undefined;
  }
}

/** @returns the place after the text; −1 for another form. */
function scanMerge(bytes: Uint8Array, at: number, merges: TextTable): number {
  const end = textEnd(bytes, at);
  if (end < 0) return -1;
  const length = unescaped(bytes, at + 1, end);
  if (length < 0) return -1;
  addMerge(merges, bytes, at + 1, at + 1 + length);
  return end + 1;
}

/** Adds a merge of the form "first second", whose blank becomes {@link separator} in place. Without a blank it merges nothing, but has a rank. */
export function addMerge(merges: TextTable, bytes: Uint8Array, start: number, end: number): void {
  let cut = start;
  while (cut < end && bytes[cut] !== blank) cut++;
  let stop = cut + 1;
  while (stop < end && bytes[stop] !== blank) stop++;
  if (cut < end) bytes[cut] = separator;
  merges.add(start, Math.min(stop, end));
}

/** @returns the place after the pair; −1 for another form. */
function scanPair(bytes: Uint8Array, start: number, merges: TextTable): number {
  const first = after(bytes, start, openBracket);
  const firstEnd = first < 0 ? -1 : textEnd(bytes, first);
  const second = firstEnd < 0 ? -1 : after(bytes, skipBlanks(bytes, firstEnd + 1), comma);
  const secondEnd = second < 0 ? -1 : textEnd(bytes, second);
  const end = secondEnd < 0 ? -1 : skipBlanks(bytes, secondEnd + 1);
  if (end < 0 || bytes[end] !== closeBracket) return -1;
  const length = unescaped(bytes, first + 1, firstEnd);
  const more = unescaped(bytes, second + 1, secondEnd);
  if (length < 0 || more < 0) return -1;
  const cut = first + 1 + length;
  bytes[cut] = separator;
  for (let i = 1; i <= more; i++) bytes[cut + i] = bytes[second + i]!;
  merges.add(first + 1, cut + 1 + more);
  return end + 1;
}

/** The place of the quote that ends the text whose first quote is at `at`; −1 if there is none, or a control character comes before it. */
function textEnd(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== quote) return -1;
  for (let end = at + 1; end < bytes.length; end++) {
    const byte = bytes[end]!;
    if (byte === quote) return end;
    if (byte < blank) return -1;
    if (byte === backslash) end++;
  }
  return -1;
}

/** Resolves the escapes of a text in place. @returns its number of bytes; −1 for a wrong escape or a lone surrogate. */
function unescaped(bytes: Uint8Array, start: number, end: number): number {
  for (let i = start; ; i++) {
    if (i === end) return end - start;
    if (bytes[i] === backslash) break;
  }
  const text = parsed(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(start - 1, end + 1)));
  // An escape is longer than its character.
  return typeof text === "string" && text.isWellFormed() ? new TextEncoder().encodeInto(text, bytes.subarray(start, end)).written : -1;
}

/** The place of the value after this byte and blanks; −1 if another byte is there. */
function after(bytes: Uint8Array, at: number, byte: number): number {
  return bytes[at] === byte ? skipBlanks(bytes, at + 1) : -1;
}

function skipBlanks(bytes: Uint8Array, at: number): number {
  for (;;) {
    const byte = bytes[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at;
    at++;
  }
}
