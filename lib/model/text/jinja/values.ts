/**
 * The values of `@huggingface/jinja`'s interpreter. Its classes are not exported, so they are taken from values that an
 * environment makes.
 */
import type { FromTemplate, Text } from "./origin.ts";

export interface StringValue {
  readonly type: "StringValue";
  readonly value: string;
  /** The origin of the string's characters; absent if the library made the string. */
  fromTemplate?: FromTemplate;
}
export interface NumberValue {
  readonly type: "IntegerValue" | "FloatValue";
  /** A bigint is an integer that a number can't hold exactly. */
  readonly value: number | bigint;
}
export interface BooleanValue {
  readonly type: "BooleanValue";
  readonly value: boolean;
}
export interface ListValue {
  readonly type: "ArrayValue" | "TupleValue";
  readonly value: readonly Value[];
}
export interface MapValue {
  readonly type: "ObjectValue" | "NamespaceValue" | "KeywordArgumentsValue";
  readonly value: Map<string, Value>;
  /** Whether the keys come from the template. */
  keysFromTemplate?: boolean;
}
export interface FunctionValue {
  readonly type: "FunctionValue";
  readonly value: (args: Value[], scope: Environment) => Value;
}
export interface NoValue {
  readonly type: "NullValue" | "UndefinedValue";
  readonly value: null | undefined;
}
export type Value = StringValue | NumberValue | BooleanValue | ListValue | MapValue | FunctionValue | NoValue;

/** A scope of variables. */
export interface Environment {
  readonly parent?: Environment | undefined;
  readonly variables: Map<string, Value>;
  set(name: string, value: unknown): Value;
  setVariable(name: string, value: Value): Value;
}

/** A node of a parsed template; its members depend on its type. */
export interface Node {
  readonly type: string;
  readonly [member: string]: any;
}

/** The used part of the library's interpreter: its other methods call these. */
export interface Interpreter {
  readonly global: Environment;
  evaluate(node: Node | undefined, scope: Environment): Value;
  evaluateArguments(args: readonly Node[], scope: Environment): [Value[], Map<string, Value>];
  applyFilter(operand: Value, filter: Node, scope: Environment): Value;
}

interface Library {
  readonly Environment: new (parent?: Environment) => Environment;
  readonly Interpreter: new (scope: Environment) => Interpreter;
  tokenize(source: string, options: { readonly lstrip_blocks: boolean; readonly trim_blocks: boolean }): unknown;
  parse(tokens: unknown): Node;
}

/** Loaded with the first template. */
export const library = () => require("@huggingface/jinja") as Library;

type Maker<Of extends Value> = new (value: Of["value"]) => Of;

function makers() {
  const { Environment, Interpreter } = library();
  const scope = new Environment();
  const classOf = (value: Value): unknown => value.constructor;
  const tuple = new Interpreter(scope).evaluate({ type: "TupleLiteral", value: [] }, scope);
  return {
    string: classOf(scope.set("string", "")) as Maker<StringValue>,
    integer: classOf(scope.set("integer", 1)) as Maker<NumberValue>,
    float: classOf(scope.set("float", 0.5)) as Maker<NumberValue>,
    boolean: classOf(scope.set("boolean", true)) as Maker<BooleanValue>,
    list: classOf(scope.set("list", [])) as Maker<ListValue>,
    tuple: classOf(tuple) as Maker<ListValue>,
    map: classOf(scope.set("map", {})) as Maker<MapValue>,
    call: classOf(scope.set("call", () => 0)) as Maker<FunctionValue>,
    none: classOf(scope.set("none", null)) as Maker<NoValue>,
    missing: classOf(scope.set("missing", undefined)) as Maker<NoValue>,
  };
}

let found: ReturnType<typeof makers> | undefined;
const classes = () => (found ??= makers());

export function text({ value, fromTemplate }: Text): StringValue {
  const made = new (classes().string)(value);
  made.fromTemplate = fromTemplate;
  return made;
}
export const integer = (value: number | bigint): NumberValue =>
  new (classes().integer)(typeof value === "bigint" && value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value);
export const float = (value: number): NumberValue => new (classes().float)(value);
export const boolean = (value: boolean): BooleanValue => new (classes().boolean)(value);
export const list = (value: readonly Value[]): ListValue => new (classes().list)(value);
export const tuple = (value: readonly Value[]): ListValue => new (classes().tuple)(value);
export const none = (): NoValue => new (classes().none)(null);
export const missing = (): NoValue => new (classes().missing)(undefined);
export const call = (run: (args: Value[], scope: Environment) => Value): FunctionValue => new (classes().call)(run);
export function map(value: Map<string, Value>, keysFromTemplate: boolean): MapValue {
  const made = new (classes().map)(value);
  made.keysFromTemplate = keysFromTemplate;
  return made;
}

export const textOf = (value: StringValue): Text => ({ value: value.value, fromTemplate: value.fromTemplate ?? false });
export const isText = (value: Value): value is StringValue => value.type === "StringValue";
export const isList = (value: Value): value is ListValue => value.type === "ArrayValue" || value.type === "TupleValue";
export const isMap = (value: Value): value is MapValue => value.type === "ObjectValue" || value.type === "NamespaceValue";
export const isNumber = (value: Value): value is NumberValue => value.type === "IntegerValue" || value.type === "FloatValue";
export const isInteger = (value: Value): value is NumberValue => value.type === "IntegerValue";

/** Whether a value is true in Python. */
export function truth(value: Value): boolean {
  if (isList(value)) return value.value.length > 0;
  if (value.type === "ObjectValue" || value.type === "KeywordArgumentsValue") return value.value.size > 0;
  return value.type === "NamespaceValue" || Boolean(value.value);
}

/** The keys of a mapping as strings. */
export const keysOf = (value: MapValue): StringValue[] => [...value.value.keys()].map((key) => text({ value: key, fromTemplate: value.keysFromTemplate ?? false }));

/** The items of a mapping as pairs. */
export const itemsOf = (value: MapValue): ListValue[] => keysOf(value).map((key) => tuple([key, value.value.get(key.value)!]));

/**
 * Converts a JSON value to a value of the interpreter.
 *
 * @param fromTemplate whether its strings count as the template's.
 */
export function valueOf(json: unknown, fromTemplate: boolean): Value {
  if (json === null) return none();
  switch (typeof json) {
    case "string":
      return text({ value: json, fromTemplate });
    case "number":
      // From 10²¹ on JavaScript writes an exponent in JSON, which Python reads as a float.
      return Number.isInteger(json) && Math.abs(json) < 1e21 ? integer(json) : float(json);
    case "bigint":
      return integer(json);
    case "boolean":
      return boolean(json);
    case "object":
      if (Array.isArray(json)) return list(json.map((item) => valueOf(item, fromTemplate)));
      return map(new Map(Object.entries(json).map(([key, item]) => [key, valueOf(item, fromTemplate)])), fromTemplate);
    default:
      return missing();
  }
}
