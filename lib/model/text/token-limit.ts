/** The error for a text with more tokens than there is room for, thrown as soon as that is certain, before the whole text is encoded. */
export class TooManyTokens extends Error {}

/** The largest factor by which a text's bytes can shrink, by the normalizer. */
const shrinkages: ReadonlyMap<unknown, number> = new Map<unknown, number>([
  [undefined, 1],
  // Seven bytes become two at most: U+1FBE, U+0308 and U+0301 become U+0390.
  ["NFC", 4],
]);

/** The used part of a `tokenizer.json`'s steps. */
interface StepForm {
  readonly type?: unknown;
  readonly behavior?: unknown;
  readonly invert?: unknown;
  readonly pretokenizers?: readonly (StepForm | null)[];
}

/**
 * The factor by which a text's bytes can shrink before it is split into words and merged; undefined for a tokenizer of another kind,
 * which may drop text. Then a long text may have few tokens.
 */
export function shrinkageOf(json: { readonly [key: string]: unknown }, config: { readonly [key: string]: unknown }): number | undefined {
  const normalizer = (json["normalizer"] ?? undefined) as StepForm | undefined;
  const step = (json["pre_tokenizer"] ?? undefined) as StepForm | undefined;
  if (config["remove_space"] === true || config["do_lowercase_and_remove_accent"] === true) return undefined;
  // Unknown characters in a row become one token.
  if ((json["model"] as { readonly fuse_unk?: unknown } | undefined)?.fuse_unk === true) return undefined;
  if (!keepsText(step) || !endsInBytes(step)) return undefined;
  return shrinkages.get(normalizer?.type);
}

/** Whether a step splits a text without leaving out a part of it. */
function keepsText(step: StepForm | null | undefined): boolean {
  if (step?.type === "Sequence") return (step.pretokenizers ?? []).every(keepsText);
  if (step?.type === "Split") return step.invert !== true && typeof step.behavior === "string" && step.behavior.toLowerCase() !== "removed";
  return step?.type === "ByteLevel" || step?.type === "Digits";
}

/** Whether words end up with one character for each byte. */
function endsInBytes(step: StepForm | null | undefined): boolean {
  return step?.type === "Sequence" ? endsInBytes(step.pretokenizers?.at(-1)) : step?.type === "ByteLevel";
}
