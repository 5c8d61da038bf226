/** How Python writes values: `str`, `repr`, and `json.dumps` as transformers' `tojson` calls it. */
import { concat, join, template } from "./origin.ts";
import type { Text } from "./origin.ts";
import type { Budget } from "./budget.ts";
import { isList, isMap, isText, keysOf, textOf } from "./values.ts";
import type { NumberValue, Value } from "./values.ts";

/** The shortest digits that give the number back, in Python's form: 1.0, 1e-05, 1e+16. */
function floatText(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0.0";
  const [mantissa = "", power = "0"] = value.toExponential().split("e");
  const exponent = Number(power);
  if (exponent < -4 || exponent >= 16) return `${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  if (exponent >= 0) return Number.isInteger(value) ? `${BigInt(value)}.0` : String(value);
  const sign = value < 0 ? "-" : "";
  return `${sign}0.${"0".repeat(-exponent - 1)}${mantissa.replace(/[-.]/g, "")}`;
}

function numberText({ type, value }: NumberValue): string {
  return type === "FloatValue" ? floatText(Number(value)) : String(value);
}

/** `str(value)`; an undefined value is empty. */
export function str(value: Value, budget: Budget): Text {
  if (isText(value)) return textOf(value);
  return value.type === "UndefinedValue" ? template("") : repr(value, budget);
}

/** `repr(value)` */
function repr(value: Value, budget: Budget): Text {
  budget.step();
  switch (value.type) {
    case "StringValue":
      budget.make(16 * value.value.length); // escapes are longer than their characters, and slower to make
      return { value: quoted(value.value), fromTemplate: value.fromTemplate === true };
    case "IntegerValue":
    case "FloatValue":
      return template(numberText(value));
    case "BooleanValue":
      return template(value.value ? "True" : "False");
    case "NullValue":
      return template("None");
    case "UndefinedValue":
      return template("Undefined");
    case "FunctionValue":
      return template("<function>");
    case "ArrayValue":
    case "TupleValue": {
      const tuple = value.type === "TupleValue";
      const items = commas(value.value.map((item) => repr(item, budget)));
      const end = tuple ? (value.value.length === 1 ? ",)" : ")") : "]";
      return enclosed(tuple ? "(" : "[", items, end, budget);
    }
    default: {
      const members = keysOf(value).map((key) => concat(concat(repr(key, budget), template(": ")), repr(value.value.get(key.value)!, budget)));
      return enclosed("{", commas(members), "}", budget);
    }
  }
}

const commas = (items: readonly Text[]): Text => join(items, template(", "));

function enclosed(before: string, text: Text, after: string, budget: Budget): Text {
  budget.make(text.value.length + 2);
  return concat(concat(template(before), text), template(after));
}

const named: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** In single quotes, or in double quotes if the text has only single ones; unprintable characters are escaped. */
function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inner = text.replace(/[\\'"]|(?! )[\p{C}\p{Z}]/gu, (character) => {
    if (character === "'" || character === '"') return character === quote ? `\\${character}` : character;
    return named[character] ?? escaped(character.codePointAt(0)!);
  });
  return quote + inner + quote;
}

function escaped(code: number): string {
  const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${letter}${code.toString(16).padStart(Number(digits), "0")}`;
}

/** Options of `json.dumps`. */
export interface JsonStyle {
  readonly ascii: boolean;
  /** The indent of a level; undefined for one line. */
  readonly indent: string | undefined;
  readonly separators: readonly [item: string, key: string] | undefined;
  readonly sorted: boolean;
}

/** `json.dumps(value, …)` */
export function json(value: Value, style: JsonStyle, budget: Budget): Text {
  const { indent, sorted } = style;
  const [item, key] = style.separators ?? [indent === undefined ? ", " : ",", ": "];
  const name = (text: Text): Text => {
    budget.make(2 * text.value.length + 2);
    return { value: jsonText(text.value, style.ascii), fromTemplate: text.fromTemplate === true };
  };
  const block = (open: string, members: readonly Text[], close: string, depth: number): Text => {
    if (members.length === 0) return template(open + close);
    const line = (level: number) => {
      if (indent === undefined) return "";
      budget.make(indent.length * level * members.length);
      return `\n${indent.repeat(level)}`;
    };
    const inner = join(members, template(item + line(depth + 1)));
    budget.make(inner.value.length + 2);
    return concat(concat(template(open + line(depth + 1)), inner), template(line(depth) + close));
  };
  const write = (value: Value, depth: number): Text => {
    budget.step();
    if (isText(value)) return name(textOf(value));
    if (isList(value)) return block("[", value.value.map((one) => write(one, depth + 1)), "]", depth);
    if (isMap(value)) {
      const keys = keysOf(value);
      if (sorted) keys.sort((a, b) => comparePoints(a.value, b.value));
      const members = keys.map((one) => concat(concat(name(textOf(one)), template(key)), write(value.value.get(one.value)!, depth + 1)));
      return block("{", members, "}", depth);
    }
    switch (value.type) {
      case "NullValue":
        return template("null");
      case "BooleanValue":
        return template(String(value.value));
      case "IntegerValue":
      case "FloatValue":
        return template(numberText(value).replace("inf", "Infinity").replace("nan", "NaN"));
      default:
        throw new Error(`tojson: ${value.type === "UndefinedValue" ? "an undefined value" : "a function"} can't be written as JSON`);
    }
  };
  return write(value, 0);
}

function jsonText(text: string, ascii: boolean): string {
  const written = JSON.stringify(text);
  return ascii ? written.replace(/[\x7f-\uffff]/g, (unit) => escaped(unit.charCodeAt(0)).replace("\\x", "\\u00")) : written;
}

/** Compares by code points, as Python does. */
export function comparePoints(a: string, b: string): number {
  for (let i = 0; ; ) {
    const [x, y] = [a.codePointAt(i), b.codePointAt(i)];
    if (x !== y) return (x ?? -1) - (y ?? -1);
    if (x === undefined) return 0;
    i += x > 0xffff ? 2 : 1;
  }
}
