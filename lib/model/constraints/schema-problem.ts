import { describe } from "../../errors.ts";

/** A schema as an object of keywords. */
export type JsonSchemaObject = Readonly<Record<string, unknown>>;

/** A part of a schema that is wrong, or that would not be enforced. */
export class SchemaProblem extends Error {
  /** Where it is, such as `.properties.name.pattern`. */
  readonly path: string;
  readonly expected: string;
  readonly received: string;

  constructor(path: string, expected: string, received: unknown) {
    super(`${path}: ${expected}`);
    this.path = path;
    this.expected = expected;
    this.received = describe(received);
  }
}
