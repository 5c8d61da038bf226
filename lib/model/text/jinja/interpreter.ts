/**
 * Renders templates as transformers does. `@huggingface/jinja` parses them and evaluates most of the language. This file
 * overrides the parts that differ from Python, that could take any amount of work, or that make strings: each evaluated
 * node is counted, and each string records whether the template wrote it.
 */
import { Budget, BudgetError } from "./budget.ts";
import { Arguments } from "./arguments.ts";
import { filters, items, sortingSteps } from "./filters.ts";
import { globals } from "./globals.ts";
import { attributeOf, bound, sliceOf } from "./members.ts";
import { operate, typeName } from "./operators.ts";
import { concat, template } from "./origin.ts";
import type { Text } from "./origin.ts";
import { str } from "./python.ts";
import { test } from "./tests.ts";
import { boolean, call, integer, isList, isText, library, list, map, missing, text, textOf, truth, tuple } from "./values.ts";
import type { Environment, FunctionValue, Interpreter, MapValue, Node, StringValue, Value } from "./values.ts";

/** A parsed template. */
export interface Program {
  readonly root: Node;
}

/** @throws the library's error for invalid Jinja. */
export function parse(source: string): Program {
  const { parse, tokenize } = library();
  return { root: parse(tokenize(source.replace(/\r\n?/g, "\n"), { lstrip_blocks: true, trim_blocks: true })) };
}

/**
 * Renders a template.
 *
 * @throws {BudgetError} if it exceeds its work limit; other errors for values that it refuses.
 */
export function render({ root }: Program, variables: ReadonlyMap<string, Value>, input: number): Text {
  const budget = new Budget(input);
  const scope = new (library().Environment)();
  for (const [name, value] of [...globals(budget), ...variables]) scope.setVariable(name, value);
  try {
    return textOf(makeInterpreter(scope, budget).evaluate(root, scope) as StringValue);
  } catch (cause) {
    if (cause instanceof RangeError) throw new BudgetError("it calls itself too deeply", { cause });
    throw cause;
  }
}

/** `break` and `continue`, with the text that the iteration has written. */
class Leave extends Error {
  written = template("");
}
class Break extends Leave {}
class Continue extends Leave {}

/** Statements that write nothing. */
const silent = new Set(["Set", "Macro", "Comment"]);

function makeInterpreter(scope: Environment, budget: Budget): Interpreter {
  class Counting extends library().Interpreter {
    override evaluate(node: Node | undefined, scope: Environment): Value {
      budget.step();
      switch (node?.type) {
        case undefined:
          return missing();
        case "StringLiteral":
          return text(template(node["value"]));
        case "Identifier":
          return lookUp(scope, node["value"]);
        case "ObjectLiteral":
          return this.evaluateMapping(node, scope);
        case "Break":
          throw new Break();
        case "Continue":
          throw new Continue();
        default:
          return super.evaluate(node, scope);
      }
    }

    /** Evaluates a list of statements to the text that they write. */
    evaluateBlock(statements: readonly Node[], scope: Environment): StringValue {
      let written = template("");
      for (const statement of statements) {
        const value = this.evaluateStatement(statement, scope, written);
        if (silent.has(statement.type)) continue;
        const next = str(value, budget);
        budget.make(next.value.length);
        written = concat(written, next);
      }
      return text(written);
    }

    evaluateStatement(statement: Node, scope: Environment, before: Text): Value {
      try {
        return this.evaluate(statement, scope);
      } catch (thrown) {
        if (thrown instanceof Leave) thrown.written = concat(before, thrown.written);
        throw thrown;
      }
    }

    evaluateMapping(node: Node, scope: Environment): MapValue {
      const members = new Map<string, Value>();
      let keysFromTemplate = true;
      for (const [key, value] of node["value"] as Map<Node, Node>) {
        const name = this.evaluate(key, scope);
        if (!isText(name)) throw new Error(`keys are strings, got ${typeName(name)}`);
        keysFromTemplate &&= name.fromTemplate === true;
        members.set(name.value, this.evaluate(value, scope));
      }
      return map(members, keysFromTemplate);
    }

    evaluateBinaryExpression(node: Node, scope: Environment): Value {
      const operator: string = node["operator"].value;
      const left = this.evaluate(node["left"], scope);
      if (operator === "and" && !truth(left)) return left;
      if (operator === "or" && truth(left)) return left;
      const right = this.evaluate(node["right"], scope);
      return operator === "and" || operator === "or" ? right : operate(operator, left, right, budget);
    }

    override evaluateArguments(args: readonly Node[], scope: Environment): [Value[], Map<string, Value>] {
      const found = super.evaluateArguments(args, scope);
      budget.step(found[0].length + found[1].size); // `*list` can pass any number
      return found;
    }

    /** A macro sees the variables of its definition, not of its call; except for the block of a `call`. */
    evaluateMacro(node: Node, scope: Environment): Value {
      const base = Object.getPrototypeOf(Counting.prototype) as { evaluateMacro(node: Node, scope: Environment): Value };
      const result = base.evaluateMacro.call(this, node, scope);
      const macro = scope.variables.get(node["name"].value) as FunctionValue;
      const called = call((args, from) => {
        const inner = new (library().Environment)(scope);
        const caller = from.variables.get("caller");
        if (caller !== undefined) inner.setVariable("caller", caller);
        return macro.value(args, inner);
      });
      scope.setVariable(node["name"].value, called);
      return result;
    }

    evaluateUnaryExpression(node: Node, scope: Environment): Value {
      const value = this.evaluate(node["argument"], scope);
      const operator: string = node["operator"].value;
      return operator === "not" ? boolean(!truth(value)) : operate(operator, integer(0), value, budget);
    }

    evaluateTernaryExpression(node: Node, scope: Environment): Value {
      return this.evaluate(truth(this.evaluate(node["condition"], scope)) ? node["trueExpr"] : node["falseExpr"], scope);
    }

    evaluateSelectExpression(node: Node, scope: Environment): Value {
      return truth(this.evaluate(node["test"], scope)) ? this.evaluate(node["lhs"], scope) : missing();
    }

    evaluateIf(node: Node, scope: Environment): Value {
      return this.evaluateBlock(truth(this.evaluate(node["test"], scope)) ? node["body"] : node["alternate"], scope);
    }

    evaluateTestExpression(node: Node, scope: Environment): Value {
      const holds = test(node["test"].value, this.evaluate(node["operand"], scope), undefined, budget);
      return boolean(holds !== node["negate"]);
    }

    evaluateFor(node: Node, scope: Environment): StringValue {
      const { loopvar, iterable, body, defaultBlock } = node as unknown as Record<"loopvar" | "iterable", Node> & Record<"body" | "defaultBlock", readonly Node[]>;
      const selects = iterable.type === "SelectExpression";
      const all = items(this.evaluate(selects ? iterable["lhs"] : iterable, scope), budget);
      const scopeOf = (item: Value) => {
        const inner = new (library().Environment)(scope);
        bind(loopvar, item, inner);
        return inner;
      };
      const chosen = selects ? all.filter((item) => truth(this.evaluate(iterable["test"], scopeOf(item)))) : all;
      if (chosen.length === 0) return this.evaluateBlock(defaultBlock, scope);
      let written = template("");
      for (const [i, item] of chosen.entries()) {
        budget.step(16);
        const inner = scopeOf(item);
        inner.setVariable("loop", loopState(chosen, i));
        try {
          const next = textOf(this.evaluateBlock(body, inner));
          budget.make(next.value.length);
          written = concat(written, next);
        } catch (thrown) {
          if (!(thrown instanceof Leave)) throw thrown;
          written = concat(written, thrown.written);
          if (thrown instanceof Break) break;
        }
      }
      return text(written);
    }

    evaluateMemberExpression(node: Node, scope: Environment): Value {
      const object = this.evaluate(node["object"], scope);
      const key: Node = node["property"];
      if (object.type === "UndefinedValue") throw new Error(`${nameOf(node["object"])} is undefined`);
      if (!node["computed"]) return attributeOf(object, key.type === "IntegerLiteral" ? integer(key["value"]) : text(template(key["value"])), true, budget);
      if (key.type !== "SliceExpression") return attributeOf(object, this.evaluate(key, scope), false, budget);
      const [start, stop, step] = (["start", "stop", "step"] as const).map((part) => bound(this.evaluate(key[part], scope)));
      return sliceOf(object, start, stop, step ?? 1, budget);
    }

    override applyFilter(operand: Value, filter: Node, scope: Environment): Value {
      const called = filter.type === "CallExpression";
      const name: string = (called ? filter["callee"] : filter)["value"];
      const ours = Object.hasOwn(filters, name) ? filters[name] : undefined;
      if (ours === undefined) {
        budget.step(sortingSteps(operand));
        const found = super.applyFilter(name === "sort" || name === "unique" ? list(items(operand, budget)) : operand, filter, scope);
        return name === "dictsort" && isList(found) ? list(found.value.map((pair) => (isList(pair) ? tuple(pair.value) : pair))) : found;
      }
      const [given, keywords] = called ? this.evaluateArguments(filter["args"], scope) : [[], new Map<string, Value>()];
      if (keywords.size > 0) given.push({ type: "KeywordArgumentsValue", value: keywords });
      return ours(operand, { budget, given, args: (...names) => new Arguments(name, given, names) });
    }
  }
  return new Counting(scope);
}

function lookUp(scope: Environment, name: string): Value {
  for (let at: Environment | undefined = scope; at !== undefined; at = at.parent) {
    const found = at.variables.get(name);
    // Each of the library's scopes has a `namespace`; the one in the outermost scope counts its work.
    if (found !== undefined && (name !== "namespace" || at.parent === undefined)) return found;
  }
  return missing();
}

const nameOf = (node: Node): string => (node.type === "Identifier" ? String(node["value"]) : node.type === "MemberExpression" && !node["computed"] ? String(node["property"]["value"]) : "a value");

/** Assigns an item to the variables of a loop. */
function bind(target: Node, item: Value, scope: Environment): void {
  if (target.type === "Identifier") return void scope.setVariable(target["value"], item);
  const names = target["value"] as readonly Node[];
  const parts = isList(item) ? item.value : undefined;
  if (target.type !== "TupleLiteral" || parts?.length !== names.length) throw new Error(`an item of a loop has no ${names.length} parts`);
  for (const [i, name] of names.entries()) bind(name, parts[i]!, scope);
}

function loopState(all: readonly Value[], i: number): MapValue {
  const { length } = all;
  const members: [string, Value][] = [
    ["index", integer(i + 1)],
    ["index0", integer(i)],
    ["revindex", integer(length - i)],
    ["revindex0", integer(length - i - 1)],
    ["first", boolean(i === 0)],
    ["last", boolean(i === length - 1)],
    ["length", integer(length)],
    ["previtem", all[i - 1] ?? missing()],
    ["nextitem", all[i + 1] ?? missing()],
    ["cycle", call((given) => given[i % given.length] ?? missing())],
  ];
  return map(new Map(members), true);
}
