/** Parses configurations by schemas, and makes errors about configurations in this library's words. */

import { FileError, GatedDeltaError, UnsupportedError, describe } from "../errors.ts";
import type { LayerConfig } from "./mixer-config.ts";

/** The mixers of an architecture's configuration, and which layers have one. */
export interface ConfigOf {
  readonly config: LayerConfig;
  /** The model's number of layers, if the configuration has it. */
  readonly layers: number | undefined;
  /** The type of a layer: `linear_attention` for those with a mixer. */
  readonly typeOf: (layer: number) => string | undefined;
  /** Whether these types are transformers' default; the checkpoint's own tensors then take precedence. */
  readonly assumed?: boolean;
}

/** The origin and the reader of a configuration, for errors. */
export interface ConfigPlace {
  /** The configuration's file; undefined for an object that the caller passed. */
  readonly path: string | undefined;
  /** The function that was called. */
  readonly op: string;
}

/** The part of a zod schema that {@link parsed} uses: zod's types stay out of the published declarations. */
interface ConfigSchema<Parsed> {
  safeParse(value: unknown):
    | { readonly success: true; readonly data: Parsed }
    | { readonly success: false; readonly error: { readonly issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[] } };
}

/**
 * The part of a configuration that a schema names.
 *
 * @throws as {@link configError}.
 */
export function parsed<Parsed>(schema: ConfigSchema<Parsed>, root: object, place: ConfigPlace): Parsed {
  const result = schema.safeParse(root);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const at = issue?.path ?? [];
  const value = valueAt(root, at);
  throw configError(place, at.join("."), issue?.message ?? "", value === undefined ? "none" : describe(value));
}

/** An error about a key: a FileError for a file, else one that names the argument `config`. */
export function configError({ path, op }: ConfigPlace, key: string, expected: string, received: string): GatedDeltaError {
  const text = key === "" ? expected : `${key}: ${expected}`;
  return path === undefined
    ? new GatedDeltaError("invalid-argument", { op, argument: key === "" ? "config" : `config.${key}`, expected, received })
    : new FileError(path, { op, expected: text, received });
}

/** An error about a value that is legal but not supported. */
export function unsupportedValue({ path, op }: ConfigPlace, key: string, expected: string, received: unknown): GatedDeltaError {
  return new UnsupportedError({ op, argument: `${path ?? "config"}: ${key}`, expected, received: describe(received) });
}

function valueAt(root: unknown, path: readonly PropertyKey[]): unknown {
  let value = root;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}
