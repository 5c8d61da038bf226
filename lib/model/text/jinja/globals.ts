/** The functions that transformers gives to templates. */
import { Arguments } from "./arguments.ts";
import type { Budget } from "./budget.ts";
import { template } from "./origin.ts";
import { str } from "./python.ts";
import { boolean, call, integer, isInteger, isList, isMap, library, list, map, none, text } from "./values.ts";
import type { FunctionValue, Value } from "./values.ts";

/** The limit in Jinja's sandbox, in which transformers renders. */
const longestRange = 100_000;

function range(given: readonly Value[], budget: Budget): Value {
  if (given.length < 1 || given.length > 3 || !given.every(isInteger)) throw new Error("range takes one to three integers");
  const numbers = given.map((value) => Number(value.value));
  const [start, stop, step] = numbers.length === 1 ? [0, numbers[0]!, 1] : [numbers[0]!, numbers[1]!, numbers[2] ?? 1];
  if (step === 0) throw new Error("range takes a step other than 0");
  const count = Math.max(0, Math.ceil((stop - start) / step));
  if (count > longestRange) throw new Error(`a range has at most ${longestRange} numbers, got ${count}`);
  budget.step(4 * count);
  return list(Array.from({ length: count }, (_, i) => integer(start + i * step)));
}

const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/** `datetime.now().strftime(format)` in the C locale. */
function formatTime(now: Date, format: string): string {
  const two = (value: number, fill = "0") => String(value).padStart(2, fill);
  const codes: Readonly<Record<string, () => string>> = {
    Y: () => String(now.getFullYear()).padStart(4, "0"),
    y: () => two(now.getFullYear() % 100),
    m: () => two(now.getMonth() + 1),
    d: () => two(now.getDate()),
    e: () => two(now.getDate(), " "),
    H: () => two(now.getHours()),
    I: () => two(now.getHours() % 12 || 12),
    M: () => two(now.getMinutes()),
    S: () => two(now.getSeconds()),
    p: () => (now.getHours() < 12 ? "AM" : "PM"),
    B: () => months[now.getMonth()]!,
    b: () => months[now.getMonth()]!.slice(0, 3),
    A: () => days[now.getDay()]!,
    a: () => days[now.getDay()]!.slice(0, 3),
    F: () => `${codes["Y"]!()}-${codes["m"]!()}-${codes["d"]!()}`,
    T: () => `${codes["H"]!()}:${codes["M"]!()}:${codes["S"]!()}`,
    "%": () => "%",
  };
  return format.replace(/%(-?)([a-zA-Z%])/g, (whole, bare: string, code: string) => {
    const written = Object.hasOwn(codes, code) ? codes[code]!() : undefined;
    if (written === undefined) return whole;
    return bare === "-" ? written.replace(/^[0 ](?=.)/, "") : written;
  });
}

/** The global functions by name. */
export function globals(budget: Budget): Map<string, Value> {
  const found = new Map<string, Value>();
  const root = new (library().Environment)();
  const namespace = root.variables.get("namespace") as FunctionValue;
  found.set(
    "namespace",
    call((given) => {
      for (const part of given) if (isMap(part) || isList(part)) budget.step(4 * (isMap(part) ? part.value.size : part.value.length));
      return namespace.value(given, root);
    }),
  );
  for (const [name, value] of Object.entries({ true: true, True: true, false: false, False: false })) found.set(name, boolean(value));
  for (const name of ["none", "None"]) found.set(name, none());
  found.set("range", call((given) => range(given, budget)));
  found.set(
    "raise_exception",
    call(([message]) => {
      throw new Error(message === undefined ? "" : str(message, budget).value);
    }),
  );
  found.set(
    "strftime_now",
    call((given) => {
      const format = new Arguments("strftime_now", given, ["format"]).string("format");
      budget.make(16 * format.length);
      return text(template(formatTime(new Date(), format)));
    }),
  );
  found.set(
    "dict",
    call((given) => {
      const members = new Map<string, Value>();
      for (const part of given) {
        if (part.type !== "KeywordArgumentsValue" && !isMap(part)) throw new Error("dict takes a mapping or named values");
        budget.step(4 * part.value.size);
        for (const [key, value] of part.value) members.set(key, value);
      }
      return map(members, given.every((part) => part.type === "KeywordArgumentsValue" || (isMap(part) && part.keysFromTemplate === true)));
    }),
  );
  return found;
}
