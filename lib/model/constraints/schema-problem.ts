import { describe } from "../../errors.ts";

/** A schema as an object of keywords. */
export type JsonSchemaObject = Readonly<Record<string, unknown>>;

/** The error for a part of a schema that is wrong or would not be enforced. */
export class SchemaProblem extends Error {
  /** The part's place, such as `.properties.name.pattern`. */
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
