/** Jinja's tests: `value is name`. */
import type { Budget } from "./budget.ts";
import { contains, equal, numeric, operate } from "./operators.ts";
import { isInteger, isList, isMap, isNumber, isText } from "./values.ts";
import type { StringValue, Value } from "./values.ts";

type Test = (value: Value, other: Value | undefined, budget: Budget) => boolean;

const type =
  (...types: readonly Value["type"][]): Test =>
  ({ type }) =>
    types.includes(type);

const compared =
  (operator: string): Test =>
  (value, other, budget) =>
    operate(operator, value, other!, budget).value === true;

const divisible =
  (rest: number): Test =>
  (value) => {
    const number = numeric(value);
    if (number === undefined || !Number.isInteger(Number(number))) throw new Error("odd and even take an integer");
    return Math.abs(Number(BigInt(number) % 2n)) === rest;
  };

function counted({ value }: StringValue, budget: Budget): true {
  budget.make(2 * value.length);
  return true;
}

const tests: Readonly<Record<string, Test>> = {
  defined: ({ type }) => type !== "UndefinedValue",
  undefined: type("UndefinedValue"),
  none: type("NullValue"),
  boolean: type("BooleanValue"),
  true: ({ value }) => value === true,
  false: ({ value }) => value === false,
  integer: isInteger,
  float: type("FloatValue"),
  number: (value) => isNumber(value) || value.type === "BooleanValue",
  string: isText,
  mapping: (value) => isMap(value) && value.type === "ObjectValue",
  sequence: (value) => isList(value) || isText(value) || value.type === "ObjectValue",
  iterable: (value) => isList(value) || isText(value) || value.type === "ObjectValue" || value.type === "UndefinedValue",
  callable: type("FunctionValue"),
  lower: (value, _, budget) => isText(value) && counted(value, budget) && value.value === value.value.toLowerCase() && value.value !== value.value.toUpperCase(),
  upper: (value, _, budget) => isText(value) && counted(value, budget) && value.value === value.value.toUpperCase() && value.value !== value.value.toLowerCase(),
  odd: divisible(1),
  even: divisible(0),
  in: (value, other, budget) => contains(other!, value, budget),
  eq: (value, other, budget) => equal(value, other!, budget),
  ne: (value, other, budget) => !equal(value, other!, budget),
  lt: compared("<"),
  le: compared("<="),
  gt: compared(">"),
  ge: compared(">="),
};
const aliases: Readonly<Record<string, string>> = {
  equalto: "eq", "==": "eq", "!=": "ne", "<": "lt", lessthan: "lt", "<=": "le", ">": "gt", greaterthan: "gt", ">=": "ge",
};
const withOther = ["in", "eq", "ne", "lt", "le", "gt", "ge"];

/** `value is name`, or `value is name(other)`. */
export function test(name: string, value: Value, other: Value | undefined, budget: Budget): boolean {
  const known = aliases[name] ?? name;
  if (!Object.hasOwn(tests, known)) throw new Error(`no test named ${name}`);
  if (other === undefined && withOther.includes(known)) throw new Error(`the test ${name} takes an argument`);
  return tests[known]!(value, other, budget);
}
