/**
 * Reads the JSON of a header or an index from bytes of unknown origin.
 *
 * JSON.parse silently keeps the last of several members of the same name, and its memory grows with the number of values.
 * So a pass over the bytes first bounds the number of arrays and objects and their depth, and counts the names of the two outer
 * levels, to be compared with the result.
 */
import { describe } from "../errors.ts";

/** An error about a text. The caller, which knows the file, turns it into a {@link FileError}. */
export class FormatError extends Error {
  readonly expected: string;
  readonly received: string;

  constructor(expected: string, received: string) {
    super(`expected ${expected}, got ${received}`);
    this.expected = expected;
    this.received = received;
  }
}

/** An object of JSON. */
export type JsonObject = Readonly<Record<string, unknown>>;

const deepest = 64;

/** Arrays and objects that any text may have, and additional ones for each name: a tensor has four names and three containers. */
const freeContainers = 1000;
const containersPerName = 4;

/**
 * Parses a text that must be one JSON object.
 *
 * @param what the text, for messages.
 * @throws {FormatError} if it is not UTF-8 or not JSON, if a name occurs twice in an object of the two outer levels, or if it
 *   nests deeper than 64 levels.
 */
export function parseJsonObject(bytes: Uint8Array, what: string): JsonObject {
  const { names, containers } = countNames(bytes, what);
  const most = freeContainers + containersPerName * names;
  if (containers > most) throw new FormatError(`at most ${most} arrays and objects in ${what}`, `${containers}`);
  let value: unknown;
  try {
    value = JSON.parse(decodeText(bytes, what));
  } catch (cause) {
    if (cause instanceof FormatError) throw cause;
    const reason = cause instanceof Error ? cause.message.replace(/^JSON Parse error: /, "") : describe(cause);
    throw new FormatError(`${what} to be JSON`, `a syntax error: ${reason}`);
  }
  if (!isRecord(value)) throw new FormatError(`${what} to be an object`, describe(value));
  let distinct = 0;
  for (const member of Object.values(value)) distinct += isRecord(member) ? 1 + Object.keys(member).length : 1;
  if (distinct !== names) throw new FormatError(`each name in ${what} once`, `${describe(repeatedName(bytes, what))} twice`);
  return value;
}

/** Whether a value is an object and not an array. */
export function isRecord(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A byte order mark stays in the text, where JSON.parse refuses it. */
function decodeText(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new FormatError(`${what} to be UTF-8 text`, "bytes that are not");
  }
}

const [quote, backslash, colon, openBrace, closeBrace, openBracket, closeBracket] = [..."\"\\:{}[]"].map((c) => c.charCodeAt(0));

/**
 * Counts the members at depth 1 and 2, and all arrays and objects. The counts are meaningless for text that is not
 * JSON, which JSON.parse refuses.
 *
 * @param each called with each such member's depth and its name as written in the text, quotes included.
 */
function countNames(
  bytes: Uint8Array,
  what: string,
  each?: (depth: number, name: Uint8Array) => void,
): { names: number; containers: number } {
  let names = 0;
  let containers = 0;
  let depth = 0;
  let inString = false;
  let start = 0; // of the last string
  let end = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (inString) {
      if (byte === backslash) i++;
      else if (byte === quote) {
        inString = false;
        end = i + 1;
      }
    } else if (byte === quote) {
      inString = true;
      start = i;
    } else if (byte === colon) {
      if (depth > 2) continue;
      names++;
      each?.(depth, bytes.subarray(start, end));
    } else if (byte === openBrace || byte === openBracket) {
      containers++;
      if (++depth > deepest) throw new FormatError(`at most ${deepest} levels in ${what}`, `more at byte ${i}`);
    } else if (byte === closeBrace || byte === closeBracket) {
      depth--;
    }
  }
  return { names, containers };
}

/** A name that occurs twice in an object of the two outer levels; the text is JSON. */
function repeatedName(bytes: Uint8Array, what: string): string {
  const outer = new Set<string>();
  let inner = new Set<string>();
  let found: string | undefined;
  countNames(bytes, what, (depth, text) => {
    if (found !== undefined) return;
    const name = String(JSON.parse(decodeText(text, what)));
    const names = depth === 1 ? outer : inner;
    if (names.has(name)) found = name;
    names.add(name);
    if (depth === 1) inner = new Set();
  });
  return found ?? "a name";
}
