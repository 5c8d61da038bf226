/**
 * Reads objects with named members: options, named arguments, entries of a batch. Unknown names, including inherited ones,
 * are refused, and each member is read once.
 */
import { invalid } from "./checks.ts";
import { reading } from "./reading.ts";

/** The longest prototype chain that is followed: a proxy may return another prototype at every read. */
const mostPrototypes = 32;

/** Words for the errors of {@link membersOf}. */
export interface MemberWords {
  /** The name of the object. @default "options" */
  readonly argument?: string;
  /** The accepted values. @default "an object of options" */
  readonly expected?: string;
  /** A noun for its members; may be empty. @default "the options" */
  readonly kind?: string;
  /** Text before the name of a member. @default "" */
  readonly prefix?: string;
}

/**
 * Copies the members of a caller's object that are not undefined into a plain object.
 *
 * @param known the names of its members.
 * @throws {GatedDeltaError} of code `invalid-argument` for a value that is not an object, has a member of another name, or throws while it is read.
 */
export function membersOf<Members extends object>(
  op: string,
  value: Members,
  known: readonly (keyof Members & string)[],
  { argument = "options", expected = "an object of options", kind = "the options", prefix = "" }: MemberWords = {},
): Partial<Members> {
  if (typeof value !== "object" || value === null) throw invalid(op, argument, expected, value);
  return reading(op, argument, () => {
    // A Map's entries, say, would not be seen.
    if (!isPlain(value)) throw invalid(op, argument, expected, value);
    refuseUnknown(op, value, known, kind, prefix);
    const found: Partial<Members> = {};
    for (const key of known) {
      const member = value[key];
      if (member !== undefined) found[key] = member;
    }
    return found;
  });
}

const tagOf = Object.prototype.toString;

/** Whether a value is an object of no built-in kind. */
function isPlain(value: object): boolean {
  const tag = tagOf.call(value);
  return tag === "[object Object]" || tag === "[object Module]";
}

/** Refuses names that are not in `known`, of the object itself and of its prototypes other than Object's. */
export function refuseUnknown(op: string, value: object, known: readonly string[], kind: string, prefix: string): void {
  let holder: object | null = value;
  for (let i = 0; holder !== null && holder !== Object.prototype; i++) {
    if (i === mostPrototypes) throw invalid(op, prefix, `an object of at most ${mostPrototypes} prototypes`, value);
    for (const key of Object.keys(holder)) {
      if (known.includes(key)) continue;
      throw invalid(op, prefix + key, ["one of", ...(kind === "" ? [] : [kind]), known.join(", ")].join(" "), (value as Record<string, unknown>)[key]);
    }
    holder = Object.getPrototypeOf(holder) as object | null;
  }
}
