/** Looks up members of values as Jinja does: `object.key`, `object[key]` and `object[start:stop:step]`. */
import type { Budget } from "./budget.ts";
import { items } from "./filters.ts";
import { equal, typeName } from "./operators.ts";
import { concat, slice, template } from "./origin.ts";
import type { Text } from "./origin.ts";
import { stringMethod } from "./string-methods.ts";
import { call, integer, isInteger, isList, isMap, isText, itemsOf, keysOf, list, missing, none, text, textOf, tuple } from "./values.ts";
import type { ListValue, MapValue, StringValue, Value } from "./values.ts";

/** The methods of a mapping, which take precedence over its keys after a dot. */
function mappingMethod(object: MapValue, name: string, budget: Budget): ((given: Value[]) => Value) | undefined {
  const counted = (make: () => Value[]) => () => {
    budget.step(4 * object.value.size);
    return list(make());
  };
  switch (name) {
    case "get":
      return ([key, otherwise]) => (key !== undefined && isText(key) ? object.value.get(key.value) : undefined) ?? otherwise ?? none();
    case "items":
      return counted(() => itemsOf(object));
    case "keys":
      return counted(() => keysOf(object));
    case "values":
      return counted(() => [...object.value.values()]);
    default:
      return undefined;
  }
}

/** `object.key`, or `object[key]`. */
export function attributeOf(object: Value, key: Value, dotted: boolean, budget: Budget): Value {
  if (isText(key)) {
    if (object.type === "ObjectValue") {
      const method = mappingMethod(object, key.value, budget);
      const found = object.value.get(key.value);
      return dotted && method !== undefined ? call(method) : (found ?? (method === undefined ? missing() : call(method)));
    }
    if (isMap(object)) return object.value.get(key.value) ?? missing();
    const method = isText(object) ? stringMethod(key.value, textOf(object), budget) : isList(object) ? listMethod(object, key.value, budget) : undefined;
    return method === undefined ? missing() : call(method);
  }
  if (!isInteger(key)) return missing();
  const at = Number(key.value);
  if (isList(object)) return object.value.at(at) ?? missing();
  return isText(object) ? (items(object, budget).at(at) ?? missing()) : missing();
}

function listMethod(object: ListValue, name: string, budget: Budget): ((given: Value[]) => Value) | undefined {
  const same = (given: Value[]) => (item: Value) => given[0] !== undefined && equal(item, given[0], budget);
  switch (name) {
    case "count":
      return (given) => integer(object.value.filter(same(given)).length);
    case "index":
      return (given) => {
        const at = object.value.findIndex(same(given));
        if (at < 0) throw new Error("an item that is not in the list");
        return integer(at);
      };
    default:
      return undefined;
  }
}

/** A bound of a slice. */
export function bound(value: Value): number | undefined {
  if (value.type === "UndefinedValue" || value.type === "NullValue") return undefined;
  if (!isInteger(value)) throw new Error(`the bounds of a slice are integers, got ${typeName(value)}`);
  return Number(value.value);
}

/** `object[start:stop:step]`; a string's units are its code points. */
export function sliceOf(object: Value, start: number | undefined, stop: number | undefined, step: number, budget: Budget): Value {
  if (!isText(object) && !isList(object)) return missing();
  if (step === 0) throw new Error("the step of a slice is not 0");
  const plain = isText(object) && step === 1 && !/[\ud800-\udfff]/.test(object.value);
  if (plain) budget.make(object.value.length);
  const { length } = plain ? object.value : items(object, budget);
  const limit = (at: number, low: number, high: number) => Math.min(Math.max(at < 0 ? at + length : at, low), high);
  const from = start === undefined ? (step > 0 ? 0 : length - 1) : step > 0 ? limit(start, 0, length) : limit(start, -1, length - 1);
  const to = stop === undefined ? (step > 0 ? length : -1) : step > 0 ? limit(stop, 0, length) : limit(stop, -1, length - 1);
  if (plain) return text(slice(textOf(object), from, Math.max(from, to)));
  const all = items(object, budget);
  const chosen: Value[] = [];
  for (let at = from; step > 0 ? at < to : at > to; at += step) chosen.push(all[at]!);
  if (isList(object)) return object.type === "TupleValue" ? tuple(chosen) : list(chosen);
  return text((chosen as StringValue[]).reduce<Text>((sum, part) => concat(sum, textOf(part)), template("")));
}
