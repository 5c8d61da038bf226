/** Python's operators on values. */
import type { Budget } from "./budget.ts";
import { concat } from "./origin.ts";
import { comparePoints, str } from "./python.ts";
import { boolean, float, integer, isInteger, isList, isMap, isNumber, isText, list, text, textOf, tuple } from "./values.ts";
import type { ListValue, StringValue, Value } from "./values.ts";

const names: Readonly<Record<string, string>> = {
  StringValue: "str",
  IntegerValue: "int",
  FloatValue: "float",
  BooleanValue: "bool",
  ArrayValue: "list",
  TupleValue: "tuple",
  ObjectValue: "dict",
  NamespaceValue: "namespace",
  KeywordArgumentsValue: "dict",
  FunctionValue: "function",
  NullValue: "None",
  UndefinedValue: "undefined",
};

const comparisons = ["<", "<=", ">", ">="];

/** The Python name of a value's type. */
export const typeName = (value: Value): string => names[value.type]!;

/** `left operator right`, for every operator except `and` and `or`. */
export function operate(operator: string, left: Value, right: Value, budget: Budget): Value {
  switch (operator) {
    case "==":
      return boolean(equal(left, right, budget));
    case "!=":
      return boolean(!equal(left, right, budget));
    case "in":
      return boolean(contains(right, left, budget));
    case "not in":
      return boolean(!contains(right, left, budget));
    case "~": {
      const [first, second] = [str(left, budget), str(right, budget)];
      budget.make(first.value.length + second.value.length);
      return text(concat(first, second));
    }
  }
  const [a, b] = [numeric(left), numeric(right)];
  if (a !== undefined && b !== undefined) return arithmetic(operator, a, b, left.type !== "FloatValue" && right.type !== "FloatValue");
  if (operator === "+" && isText(left) && isText(right)) {
    budget.make(left.value.length + right.value.length);
    return text(concat(textOf(left), textOf(right)));
  }
  if (operator === "+" && isList(left) && isList(right) && left.type === right.type) {
    budget.items(left.value.length + right.value.length);
    return listLike(left, left.value.concat(right.value));
  }
  if (operator === "*") {
    const [sequence, times] = isInteger(left) ? [right, left] : [left, right];
    if ((isText(sequence) || isList(sequence)) && isInteger(times)) return repeated(sequence, Math.max(0, Number(times.value)), budget);
  }
  if (isText(left) && isText(right) && comparisons.includes(operator)) {
    budget.make(Math.min(left.value.length, right.value.length));
    return boolean(compares(operator, comparePoints(left.value, right.value), 0));
  }
  if (isList(left) && isList(right) && left.type === right.type && comparisons.includes(operator)) {
    const at = left.value.findIndex((item, i) => i >= right.value.length || !equal(item, right.value[i]!, budget));
    const [a, b] = [at < 0 ? undefined : left.value[at], right.value[at < 0 ? left.value.length : at]];
    if (a !== undefined && b !== undefined) return operate(operator, a, b, budget);
    return boolean(compares(operator, left.value.length, right.value.length));
  }
  for (const value of [left, right]) if (value.type === "UndefinedValue") throw new Error(`an undefined value in ${operator}`);
  throw new Error(`unsupported operands of ${operator}: ${typeName(left)} and ${typeName(right)}`);
}

/** A boolean counts as 0 or 1. */
export function numeric(value: Value): number | bigint | undefined {
  if (isNumber(value)) return value.value;
  return value.type === "BooleanValue" ? Number(value.value) : undefined;
}

function repeated(sequence: StringValue | ListValue, times: number, budget: Budget): Value {
  if (isText(sequence)) {
    budget.make(sequence.value.length * times);
    const { value, fromTemplate } = textOf(sequence);
    return text({ value: value.repeat(times), fromTemplate: typeof fromTemplate === "string" ? fromTemplate.repeat(times) : fromTemplate });
  }
  const items = sequence.value;
  budget.items(items.length * times);
  return listLike(sequence, items.length === 0 ? [] : Array.from({ length: times }, () => items).flat());
}

const listLike = ({ type }: ListValue, items: readonly Value[]): Value => (type === "TupleValue" ? tuple(items) : list(items));

function arithmetic(operator: string, a: number | bigint, b: number | bigint, whole: boolean): Value {
  switch (operator) {
    case "<":
    case "<=":
    case ">":
    case ">=":
      return boolean(compares(operator, a, b));
    case "/":
      if (Number(b) === 0) throw new Error("division by zero");
      return float(Number(a) / Number(b));
  }
  if (whole && !(operator === "**" && b < 0)) return integer(integers(operator, BigInt(a), BigInt(b)));
  return float(floats(operator, Number(a), Number(b)));
}

function compares(operator: string, a: number | bigint, b: number | bigint): boolean {
  return operator === "<" ? a < b : operator === "<=" ? a <= b : operator === ">" ? a > b : a >= b;
}

function integers(operator: string, a: bigint, b: bigint): bigint {
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return limited(a * b);
    case "**":
      if (b * BigInt(a.toString(2).length) > 4096n) throw new Error("a power that is too large");
      return a ** b;
  }
  if (b === 0n) throw new Error("division by zero");
  const rest = ((a % b) + b) % b; // of the divisor's sign
  if (operator === "%") return rest;
  if (operator === "//") return (a - rest) / b;
  throw new Error(`unknown operator ${operator}`);
}

const largestInteger = 2n ** 4096n;

/** Integers are unlimited in Python; here they are limited to 4096 bits. */
function limited(value: bigint): bigint {
  if (value > largestInteger || value < -largestInteger) throw new Error("an integer that is too large");
  return value;
}

function floats(operator: string, a: number, b: number): number {
  switch (operator) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
    case "**":
      return a ** b;
  }
  if (b === 0) throw new Error("division by zero");
  const cut = a % b;
  const rest = cut === 0 ? (b < 0 ? -0 : 0) : cut < 0 === b < 0 ? cut : cut + b; // of the divisor's sign
  if (operator === "%") return rest;
  if (operator === "//") return Math.round((a - rest) / b);
  throw new Error(`unknown operator ${operator}`);
}

/** `left == right` */
export function equal(left: Value, right: Value, budget: Budget): boolean {
  budget.step();
  const [a, b] = [numeric(left), numeric(right)];
  if (a !== undefined && b !== undefined) return a == b; // a bigint may equal a number
  if (isText(left) && isText(right)) {
    if (left.value.length === right.value.length) budget.step(left.value.length >>> 12);
    return left.value === right.value;
  }
  if (isList(left) && isList(right)) {
    if (left.type !== right.type || left.value.length !== right.value.length) return false;
    return left.value.every((item, i) => equal(item, right.value[i]!, budget));
  }
  if (isMap(left) && isMap(right)) {
    if (left.value.size !== right.value.size) return false;
    return [...left.value].every(([key, item]) => right.value.has(key) && equal(item, right.value.get(key)!, budget));
  }
  if (left.type === "FunctionValue") return left === right;
  return left.type === right.type && (left.type === "NullValue" || left.type === "UndefinedValue");
}

/** `item in where` */
export function contains(where: Value, item: Value, budget: Budget): boolean {
  if (isList(where)) return where.value.some((one) => equal(one, item, budget));
  if (isMap(where)) return isText(item) && where.value.has(item.value);
  if (where.type === "UndefinedValue") return false;
  if (isText(where) && isText(item)) {
    budget.search(where.value.length, item.value.length);
    return where.value.includes(item.value);
  }
  throw new Error(`${typeName(item)} in ${typeName(where)} is no question`);
}
