/**
 * The one check of objects whose members have names: options, named arguments, entries of a batch. A misspelt name is refused,
 * wherever the object has it from, and each member is read once.
 */
import { invalid } from "./checks.ts";
import { reading } from "./reading.ts";

/** The most prototypes of an object that are looked at: a proxy may have one more each time that it is asked. */
const mostPrototypes = 32;

/** How {@link membersOf} words its errors. */
export interface MemberWords {
  /** The object's own name in errors. @default "options" */
  readonly argument?: string;
  /** What it is to be. @default "an object of options" */
  readonly expected?: string;
  /** What its members are, if that is to be said. @default "the options" */
  readonly kind?: string;
  /** What stands before the name of a member. @default "" */
  readonly prefix?: string;
}

/**
 * The members of an object that a caller passed, in a plain object; those that are undefined are left out.
 *
 * @param known the names that it may have.
 * @throws {GatedDeltaError} of code `invalid-argument` for what is no object, has another name, or throws while it is read.
 */
export function membersOf<Members extends object>(
  op: string,
  value: Members,
  known: readonly (keyof Members & string)[],
  { argument = "options", expected = "an object of options", kind = "the options", prefix = "" }: MemberWords = {},
): Partial<Members> {
  if (typeof value !== "object" || value === null) throw invalid(op, argument, expected, value);
  return reading(op, argument, () => {
    if (Array.isArray(value)) throw invalid(op, argument, expected, value);
    refuseUnknown(op, value, known, kind, prefix);
    const found: Partial<Members> = {};
    for (const key of known) {
      const member = value[key];
      if (member !== undefined) found[key] = member;
    }
    return found;
  });
}

/** Refuses names that are not among `known`: an object's own and those that it inherits, but for Object's. */
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
