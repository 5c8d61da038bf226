/** Jinja's filters as in transformers. Other filters come from the library. */
import { Arguments } from "./arguments.ts";
import type { Budget } from "./budget.ts";
import { numeric, typeName } from "./operators.ts";
import { changed, concat, join, template } from "./origin.ts";
import type { Text } from "./origin.ts";
import { json, str } from "./python.ts";
import { capitalized, lines, pointsIn, replace, strip } from "./string-methods.ts";
import { test } from "./tests.ts";
import { float, integer, isList, isMap, isNumber, isText, itemsOf, keysOf, list, missing, text, textOf, truth } from "./values.ts";
import type { MapValue, Value } from "./values.ts";

/** A call of a filter, without its operand. */
export interface FilterCall {
  readonly budget: Budget;
  /** The arguments in order; named arguments are in the last one. */
  readonly given: readonly Value[];
  /** The arguments by the names of the filter's parameters. */
  args(...names: readonly string[]): Arguments;
}

type Filter = (operand: Value, call: FilterCall) => Value;

/** A filter on texts; other values are converted to text first. */
const ofText =
  (run: (subject: Text, call: FilterCall) => Text): Filter =>
  (operand, call) => {
    const subject = str(operand, call.budget);
    call.budget.make(subject.value.length);
    return text(run(subject, call));
  };

/** The items of an iterable value. */
export function items(value: Value, budget: Budget): readonly Value[] {
  if (value.type === "UndefinedValue") return [];
  if (isList(value)) {
    budget.items(value.value.length);
    return value.value;
  }
  if (value.type === "ObjectValue") {
    budget.step(4 * value.value.size);
    return keysOf(value);
  }
  if (!isText(value)) throw new Error(`a value of type ${typeName(value)} has no items`);
  budget.step(4 * value.value.length);
  const { fromTemplate = false } = value;
  let at = 0;
  return [...value.value].map((character) => {
    const start = at;
    at += character.length;
    return text({ value: character, fromTemplate: typeof fromTemplate === "string" ? fromTemplate.slice(start, at) : fromTemplate });
  });
}

function lengthOf(value: Value, budget: Budget): number {
  if (isMap(value)) return value.value.size;
  if (isList(value)) return value.value.length;
  if (!isText(value)) return items(value, budget).length;
  budget.make(value.value.length);
  return pointsIn(value.value);
}

/** The attribute of `map(attribute="a.b")` and similar filters. */
function attribute(value: Value, path: string): Value {
  let found: Value | undefined = value;
  for (const part of path.split(".")) {
    if (found !== undefined && isMap(found)) found = found.value.get(part);
    else if (found !== undefined && isList(found)) found = found.value[Number(part)];
    else return missing();
  }
  return found ?? missing();
}

/** `select`, `reject`, `selectattr` and `rejectattr` */
const selecting =
  (keep: boolean, byAttribute: boolean): Filter =>
  (operand, { given, budget }) => {
    const [path, rest] = byAttribute ? [given[0], given.slice(1)] : [undefined, given];
    if (byAttribute && (path === undefined || !isText(path))) throw new Error("selectattr takes an attribute's name");
    const [name, other] = rest;
    if (name !== undefined && !isText(name)) throw new Error("select takes a test's name");
    const holds = (item: Value): boolean => {
      const value = path === undefined ? item : attribute(item, String(path.value));
      return name === undefined ? truth(value) : test(name.value, value, other, budget);
    };
    return list(items(operand, budget).filter((item) => holds(item) === keep));
  };

const toInteger: Filter = (operand, call) => {
  const args = call.args("default", "base");
  const otherwise = args.value("default") ?? integer(0);
  const number = numeric(operand);
  if (typeof number === "bigint") return operand;
  if (number !== undefined) return Number.isFinite(number) ? integer(BigInt(Math.trunc(number))) : otherwise;
  if (!isText(operand)) return otherwise;
  call.budget.make(operand.value.length);
  const digits = operand.value.trim().replace(/(?<=\d)_(?=\d)/g, "");
  if (/^[+-]?\d{1,1000}$/.test(digits)) return integer(BigInt(digits.replace("+", "")));
  const value = decimal(digits);
  return Number.isFinite(value) ? integer(BigInt(Math.trunc(value))) : otherwise;
};

const decimal = (digits: string): number => (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(digits) ? Number(digits) : NaN);

const toFloat: Filter = (operand, call) => {
  const otherwise = call.args("default").value("default") ?? float(0);
  if (isText(operand)) call.budget.make(operand.value.length);
  const number = numeric(operand) ?? (isText(operand) ? decimal(operand.value.trim()) : NaN);
  return Number.isNaN(number) ? otherwise : float(Number(number));
};

const toJson: Filter = (operand, call) => {
  const args = call.args("ensure_ascii", "indent", "separators", "sort_keys");
  const indent = args.optional("indent");
  const separators = args.optional("separators");
  const pair = separators === undefined ? undefined : isList(separators) ? separators.value.map((one) => (isText(one) ? one.value : undefined)) : [];
  if (pair !== undefined && (pair.length !== 2 || pair.includes(undefined))) throw new Error("tojson takes two strings as separators");
  if (indent !== undefined && isNumber(indent)) call.budget.make(Math.max(0, Number(indent.value)));
  return text(
    json(
      operand,
      {
        ascii: args.flag("ensure_ascii", false),
        indent: indent === undefined ? undefined : isText(indent) ? indent.value : " ".repeat(Math.max(0, args.integer("indent", 0))),
        separators: pair as [string, string] | undefined,
        sorted: args.flag("sort_keys", false),
      },
      call.budget,
    ),
  );
};

const indented: Filter = ofText((subject, call) => {
  const args = call.args("width", "first", "blank");
  const width = args.value("width");
  if (width !== undefined && isNumber(width)) call.budget.make(Math.max(0, Number(width.value)));
  const by = width !== undefined && isText(width) ? textOf(width) : template(" ".repeat(Math.max(0, args.integer("width", 4))));
  const [first, blank] = [args.flag("first", false), args.flag("blank", false)];
  const all = lines(concat(subject, template("\n")), false);
  call.budget.make(all.length * by.value.length + subject.value.length);
  call.budget.step(4 * all.length);
  return join(all.map((line, i) => (i === 0 ? first : blank || line.value !== "") ? concat(by, line) : line), template("\n"));
});

const otherwise: Filter = (operand, call) => {
  const args = call.args("default_value", "boolean");
  const absent = operand.type === "UndefinedValue" || (args.flag("boolean", false) && !truth(operand));
  return absent ? (args.value("default_value") ?? text(template(""))) : operand;
};

const joined: Filter = (operand, call) => {
  const args = call.args("d", "attribute");
  const path = args.optionalString("attribute");
  const separator = args.optional("d");
  const between = separator === undefined ? template("") : str(separator, call.budget);
  const parts = items(operand, call.budget).map((item) => str(path === undefined ? item : attribute(item, path), call.budget));
  call.budget.make(parts.reduce((sum, { value }) => sum + value.length + between.value.length, 0));
  return text(join(parts, between));
};

const mapped: Filter = (operand, call) => {
  const [name, ...rest] = call.given;
  if (name !== undefined && isText(name)) {
    const filter = filters[name.value];
    if (filter === undefined || !Object.hasOwn(filters, name.value)) throw new Error(`map: no filter named ${name.value}`);
    const inner = { ...call, given: rest, args: (...names: readonly string[]) => new Arguments(name.value, rest, names) };
    return list(items(operand, call.budget).map((item) => filter(item, inner)));
  }
  const args = call.args("attribute", "default");
  const path = args.string("attribute");
  return list(
    items(operand, call.budget).map((item) => {
      const value = attribute(item, path);
      return value.type === "UndefinedValue" ? (args.value("default") ?? value) : value;
    }),
  );
};

const one =
  (at: number): Filter =>
  (operand, { budget }) =>
    items(operand, budget).at(at) ?? missing();

/** The filter `title`: a capital after a blank, a dash or an opening bracket. */
const titled = (value: string): string => value.replace(/([^-\s({[<]+)/g, (word) => capitalized(word));
const inForm = (form: (value: string) => string): Filter =>
  ofText((subject, { budget }) => {
    budget.make(8 * subject.value.length); // some forms work letter by letter
    return changed(subject, form(subject.value));
  });
const same: Filter = (operand) => operand;
const length: Filter = (operand, { budget }) => integer(lengthOf(operand, budget));

/** The filters by name. */
export const filters: Readonly<Record<string, Filter>> = {
  safe: same,
  string: (operand, { budget }) => text(str(operand, budget)),
  tojson: toJson,
  trim: ofText((subject, call) => strip(subject, call.args("chars").optionalString("chars"))),
  upper: inForm((value) => value.toUpperCase()),
  lower: inForm((value) => value.toLowerCase()),
  capitalize: inForm(capitalized),
  title: inForm(titled),
  replace: ofText((subject, call) => {
    const args = call.args("old", "new", "count");
    const what = args.string("old");
    call.budget.search(subject.value.length, what.length);
    return replace(subject, what, args.text("new"), args.count("count"), call.budget);
  }),
  indent: indented,
  default: otherwise,
  d: otherwise,
  length,
  count: length,
  list: (operand, { budget }) => list(items(operand, budget)),
  first: one(0),
  last: one(-1),
  reverse: (operand, { budget }) => {
    const all = [...items(operand, budget)].reverse();
    if (!isText(operand)) return list(all);
    budget.make(operand.value.length);
    return text(join((all as { value: string; fromTemplate?: boolean | string }[]).map(({ value, fromTemplate = false }) => ({ value, fromTemplate })), template("")));
  },
  items: (operand) => {
    if (operand.type === "UndefinedValue") return list([]);
    if (operand.type !== "ObjectValue") throw new Error(`items takes a mapping, got ${typeName(operand)}`);
    return list(itemsOf(operand));
  },
  join: joined,
  map: mapped,
  select: selecting(true, false),
  reject: selecting(false, false),
  selectattr: selecting(true, true),
  rejectattr: selecting(false, true),
  int: toInteger,
  float: toFloat,
  abs: (operand) => {
    const number = numeric(operand);
    if (number === undefined) throw new Error(`abs takes a number, got ${typeName(operand)}`);
    return operand.type === "FloatValue" ? float(Math.abs(Number(number))) : integer(number < 0 ? -BigInt(number) : number);
  },
};

/** The most steps of one of the library's filters, which may compare each item with others. */
export function sortingSteps(operand: Value): number {
  const all = isList(operand) ? operand.value : isMap(operand) ? [...(operand as MapValue).value.values()] : [];
  const rounds = 4 * Math.ceil(Math.log2(all.length + 2));
  return all.reduce((sum, item) => sum + rounds * (1 + (isText(item) ? item.value.length / 64 : 0)), isText(operand) ? operand.value.length / 64 : 0);
}
