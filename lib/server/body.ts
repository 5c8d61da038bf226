/** The bodies of requests. */
import { describe } from "../errors.ts";
import { parseWithDigits } from "../model/text/json-digits.ts";
import { expectModest } from "./json-nesting.ts";
import { Problem, clientLeft } from "./problem.ts";

/**
 * The JSON of a body.
 *
 * @param most the most bytes.
 * @param positions the model's number of positions, which bounds the token ids of a prompt.
 * @throws {Problem} for a body that is too large, compressed, or not JSON, or that nests too deep, and if the client leaves.
 */
export async function readJson(request: Request, most: number, positions: number): Promise<unknown> {
  const encoding = request.headers.get("content-encoding") ?? "identity";
  if (encoding !== "identity") throw new Problem("wrong-encoding", `content-encoding: expected none, got ${describe(encoding)}`);
  const tooLarge = () => new Problem("too-large", `the body is larger than ${most} bytes`);
  if (Number(request.headers.get("content-length") ?? 0) > most) throw tooLarge();
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let bytes = 0;
  let text = "";
  try {
    for await (const chunk of request.body ?? []) {
      bytes += chunk.length;
      if (bytes > most) throw tooLarge();
      text += decoder.decode(chunk, { stream: true });
    }
    text += decoder.decode();
  } catch (cause) {
    if (cause instanceof Problem) throw cause;
    if (request.signal.aborted || (cause instanceof Error && cause.name === "AbortError")) throw clientLeft();
    throw new Problem("invalid", "the body could not be read as UTF-8", { cause });
  }
  expectModest(text, positions);
  try {
    return parseWithDigits(text);
  } catch (cause) {
    throw new Problem("invalid", `the body is not JSON: ${cause instanceof Error ? cause.message : ""}`, { cause });
  }
}

/** A wrong member of a value. */
interface Issue {
  readonly path: readonly PropertyKey[];
  readonly message: string;
  /** The issues of each alternative, if there are alternatives. */
  readonly errors?: readonly (readonly Issue[])[];
}

/** A schema of bodies. */
export interface BodySchema<Body> {
  safeParse(value: unknown): { readonly success: true; readonly data: Body } | { readonly success: false; readonly error: { readonly issues: readonly unknown[] } };
}

/** The innermost issue: for "a text or an array", for example, the array's issue if one of its elements is wrong. */
function innermost({ path, message, errors = [] }: Issue): Issue {
  const inner = errors.length === 2 ? errors.filter((issues) => issues.every((issue) => issue.path.length > 0)) : [];
  if (inner.length !== 1) return { path, message };
  const { path: rest, message: why } = innermost(inner[0]![0]!);
  return { path: [...path, ...rest], message: why };
}

/**
 * Checks a body.
 *
 * @throws {Problem} that names the first member at fault.
 */
export function checked<Body>(schema: BodySchema<Body>, body: unknown): Body {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const { path, message } = innermost(result.error.issues[0] as Issue);
  let value = body;
  for (const key of path) value = (value as Readonly<Record<PropertyKey, unknown>> | undefined)?.[key];
  const member = path.map((key, i) => (typeof key === "number" ? `[${key}]` : `${i === 0 ? "" : "."}${String(key)}`)).join("");
  const received = value === undefined ? "nothing" : describe(value);
  throw new Problem("invalid", `${member === "" ? "the body" : member}: expected ${message}, got ${received}`, { member: member === "" ? undefined : member });
}
