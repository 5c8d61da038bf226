/** Numbers within limits, as automata over their digits. */
import { both, explore } from "./automaton.ts";
import type { Automaton } from "./automaton.ts";
import { automatonOf } from "./expression.ts";

/** A limit, which itself may be allowed. */
export interface Limit {
  /** Exact as a bigint where a number would round an integer. */
  readonly value: number | bigint;
  readonly allowed: boolean;
}

/** Lower and upper limits. */
export interface Limits {
  readonly least: Limit | undefined;
  readonly most: Limit | undefined;
}

/** The most digits of integers without a limit: such numbers are exact in float64. */
const integerDigits = 15;
/** The most digits of a decimal number: up to this length, different numbers are different in float64. */
const decimalDigits = 15;

const regular = (source: string): Automaton => automatonOf(source, false);

/** The digits of a number read so far: how many, and how they compare with the same number of the limits' digits. */
interface Prefix {
  readonly sign: "" | "-";
  readonly count: number;
  readonly toLow: number;
  readonly toHigh: number;
}

/** Digits of the integers from `low` to `high`, none of which is negative. */
interface Span {
  readonly low: string;
  readonly high: string | undefined;
  readonly longest: number;
}

/** Integers within limits. Digits are compared one by one, because an expression for hundreds of digits would be nested too deeply. */
export function integersWithin({ least, most }: Limits): Automaton {
  const low = least === undefined ? undefined : toInteger(least, 1);
  const high = most === undefined ? undefined : toInteger(most, -1);
  const spans = {
    "": span(low === undefined || low < 0n ? 0n : low, high),
    "-": low === undefined || low < 0n ? span(high === undefined || high > -1n ? 1n : -high, low === undefined ? undefined : -low) : undefined,
  };
  const name = ({ sign, count, toLow, toHigh }: Prefix): string => `${sign}${count} ${toLow} ${toHigh}`;
  return explore<Prefix>({ sign: "", count: 0, toLow: 0, toHigh: 0 }, name, (prefix) => {
    const of = spans[prefix.sign];
    const minus = prefix.sign === "" && prefix.count === 0 && spans["-"] !== undefined ? [[45, 45, { ...prefix, sign: "-" }] as const] : [];
    return { accepts: of !== undefined && isWithin(prefix, of), edges: [...(of === undefined ? [] : nextDigits(prefix, of)), ...minus] };
  });
}

function span(low: bigint, high: bigint | undefined): Span | undefined {
  if (high !== undefined && high < low) return undefined;
  const [first, last] = [String(low), high === undefined ? undefined : String(high)];
  return { low: first, high: last, longest: last?.length ?? Math.max(integerDigits, first.length) };
}

function isWithin({ count, toLow, toHigh }: Prefix, { low, high, longest }: Span): boolean {
  if (count === 0 || count > longest) return false;
  return (count > low.length || (count === low.length && toLow >= 0)) && (high === undefined || count < high.length || toHigh <= 0);
}

function nextDigits({ sign, count, toLow, toHigh }: Prefix, { low, high, longest }: Span): (readonly [number, number, Prefix])[] {
  if (count === longest) return [];
  const edges: (readonly [number, number, Prefix])[] = [];
  for (let digit = 0; digit <= 9; digit++) {
    // No digits come after a leading zero.
    const next = count === 0 && digit === 0 ? longest : count + 1;
    if (next !== count + 1 && low !== "0") continue;
    // Once digits differ, the comparison is decided; with more digits than the lower limit, the number is larger.
    const below = next > low.length ? 1 : toLow || Math.sign(digit - Number(low[count]));
    const above = high === undefined ? -1 : toHigh || Math.sign(digit - Number(high[count]));
    edges.push([48 + digit, 48 + digit, { sign, count: next, toLow: below, toHigh: count === 0 && digit === 0 ? -1 : above }]);
  }
  return edges;
}

/** The integer at a limit or next to it. */
function toInteger({ value, allowed }: Limit, inwards: 1 | -1): bigint {
  if (typeof value === "bigint") return value + (allowed ? 0n : BigInt(inwards));
  const rounded = inwards === 1 ? Math.ceil(value) : Math.floor(value);
  return BigInt(rounded) + (rounded === value && !allowed ? BigInt(inwards) : 0n);
}

/** An expression for the digits of integers from `low`, which is not negative, to `high`. */
function digitsBetween(low: bigint, high: bigint | undefined): string | undefined {
  if (high !== undefined && high < low) return undefined;
  const [first, last] = [String(low), high === undefined ? undefined : String(high)];
  const longest = last?.length ?? Math.max(integerDigits, first.length);
  const ways: string[] = [];
  for (let count = first.length; count <= longest; count++) {
    const from = count === first.length ? first : `1${"0".repeat(count - 1)}`;
    const to = count === last?.length ? last : "9".repeat(count);
    ways.push(sameLength(from, to));
  }
  return ways.join("|");
}

/** An expression for digits between two of the same length. */
function sameLength(from: string, to: string): string {
  if (from === "") return "";
  if (/^0+$/.test(from) && /^9+$/.test(to)) return `\\d{${from.length}}`;
  const [a, b] = [Number(from[0]), Number(to[0])];
  if (a === b) return `${a}${group(sameLength(from.slice(1), to.slice(1)))}`;
  const count = from.length - 1;
  const ways = [`${a}${group(sameLength(from.slice(1), "9".repeat(count)))}`, `${b}${group(sameLength("0".repeat(count), to.slice(1)))}`];
  if (b - a > 1) ways.push(`[${a + 1}-${b - 1}]\\d{${count}}`);
  return ways.join("|");
}

const group = (expression: string): string => (expression === "" ? "" : `(?:${expression})`);

/** Integers that are multiples of a positive integer. */
export function multiplesOf(divisor: number): Automaton {
  const digits = Array.from({ length: 10 }, (_, digit) => [48 + digit, digit] as const);
  return explore<number>(-1, String, (remainder) => ({
    accepts: remainder === 0,
    edges: [
      ...digits.map(([point, digit]) => [point, point, (Math.max(0, remainder) * 10 + digit) % divisor] as const),
      ...(remainder === -1 ? [[45, 45, -2] as const] : []),
    ],
  }));
}

/** Numbers within limits, with at most {@link decimalDigits} digits; undefined if a limit has more. */
export function numbersWithin({ least, most }: Limits): Automaton | undefined {
  if (least === undefined && most === undefined) return regular(`-?(?:0|[1-9]\\d{0,${integerDigits - 1}})(?:\\.\\d{1,15})?(?:[eE][+-]?\\d{1,2})?`);
  const zero: Limit = { value: 0, allowed: true };
  const mirrored = (limit: Limit | undefined): Limit | undefined => limit && { ...limit, value: -Number(limit.value) };
  const positive = magnitudes(least === undefined || least.value < 0 ? zero : least, most);
  const negative = magnitudes(most === undefined || most.value >= 0 ? { value: 0, allowed: false } : mirrored(most)!, mirrored(least));
  if (positive === undefined || negative === undefined) return undefined;
  // The states of both, after the sign or without one.
  return explore<readonly [number, number]>([0, 0], String, ([sign, at]) => {
    const own = (sign === 0 ? positive : negative)[at]!;
    const edges = own.edges.map((edge) => [edge.from, edge.to, [sign, edge.state]] as const);
    return { accepts: own.accepts, edges: sign === 0 && at === 0 ? [...edges, [45, 45, [1, 0]] as const] : edges };
  });
}

/** Unsigned numbers within limits, of which the lower one is not negative. */
function magnitudes(least: Limit, most: Limit | undefined): Automaton | undefined {
  const lower = digitsOf(Number(least.value));
  const upper = most === undefined ? undefined : digitsOf(Math.max(0, Number(most.value)));
  if (lower === undefined || (most !== undefined && upper === undefined)) return undefined;
  if (most !== undefined && (most.value < least.value || most.value < 0)) return [{ accepts: false, edges: [] }];
  const whole = Math.max(lower.whole.length, upper?.whole.length ?? 0, 1);
  const form = regular(`(?:0|[1-9]\\d{0,${most === undefined ? Math.max(whole, 9) : whole - 1}})(?:\\.\\d{1,${Math.max(1, decimalDigits - (most === undefined ? Math.max(whole + 1, 10) : whole))}})?`);
  const above = both(form, regular(beyond(lower, least.allowed, true)));
  return upper === undefined ? above : both(above, regular(beyond(upper, most!.allowed, false)));
}

/** The digits of a number before and after the point; undefined if there are too many. */
function digitsOf(value: number): { readonly whole: string; readonly rest: string } | undefined {
  const written = /^(\d+)(?:\.(\d+))?$/.exec(String(value));
  if (written === null) return undefined;
  const [, whole = "", rest = ""] = written;
  return whole.length + rest.length > decimalDigits - 1 ? undefined : { whole, rest };
}

/** An expression for decimal numbers that are larger, or smaller, than another one. */
function beyond({ whole, rest }: { readonly whole: string; readonly rest: string }, allowed: boolean, larger: boolean): string {
  const fraction = "(?:\\.\\d*)?";
  const ways: string[] = [];
  const count = whole.length;
  if (larger) {
    ways.push(`[1-9]\\d{${count},}${fraction}`);
    if (whole !== "9".repeat(count)) ways.push(`(?:${sameLength(String(BigInt(whole) + 1n), "9".repeat(count))})${fraction}`);
  } else if (whole !== "0") {
    const below = digitsBetween(0n, BigInt(whole) - 1n)!;
    ways.push(`(?:${below})${fraction}`);
  }
  // With the same digits before the point, those after it decide; digits that are missing are 0.
  const zeros = /^0*$/.test(rest);
  if (allowed) ways.push(`${whole}${zeros ? "(?:\\.0*)?" : `\\.${rest.replace(/0+$/, "")}0*`}`);
  for (let i = 0; i <= rest.length; i++) {
    const before = rest.slice(0, i);
    const digit = Number(rest[i] ?? "0");
    if (larger && digit < 9) ways.push(`${whole}\\.${before}${i === rest.length ? "0*" : ""}[${digit + 1}-9]\\d*`);
    if (!larger && digit > 0) ways.push(`${whole}\\.${before}[0-${digit - 1}]\\d*`);
  }
  if (!larger && !zeros) {
    // A number with fewer digits is less than one with all of them.
    const significant = rest.replace(/0+$/, "");
    ways.push(whole);
    for (let i = 1; i < significant.length; i++) ways.push(`${whole}\\.${significant.slice(0, i)}`);
  }
  return ways.join("|");
}
