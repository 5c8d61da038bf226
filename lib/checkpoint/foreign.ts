/** Recognises files of other formats by their first bytes, for the message that refuses them. */
import { describe } from "../errors.ts";

/** Number of bytes of a file that {@link foreignKind} examines. */
export const headBytes = 64;

const signatures: readonly (readonly [start: RegExp, kind: string])[] = [
  [/^GGUF/, "a GGUF file"],
  [/^version https:\/\/git-lfs\.github\.com\/spec\//, "a git-lfs pointer, whose content was not downloaded (`git lfs pull` downloads it)"],
  [/^# xet version/, "a Xet pointer, whose content was not downloaded"],
  [/^PK\x03\x04/, "a zip archive, as PyTorch's .bin and .pt files are"],
  [/^\x80[\x02-\x05]/, "a Python pickle, as PyTorch's older .bin and .pt files are"],
  [/^\x93NUMPY/, "a NumPy array file"],
  [/^\x89HDF/, "an HDF5 file"],
  [/^\x1f\x8b/, "a gzip archive"],
  [/^\s*<(?:!doctype|html)/i, "a web page"],
];

/**
 * The kind of a file that is neither safetensors nor JSON; undefined if its first bytes do not show it.
 *
 * @param head the first {@link headBytes} bytes, or all of a shorter file.
 */
export function foreignKind(head: Uint8Array): string | undefined {
  if (head.length === 0) return "an empty file";
  const latin1 = String.fromCharCode(...head);
  const known = signatures.find(([start]) => start.test(latin1));
  if (known) return known[1];
  const line = textOf(head)?.split(/[\r\n]/, 1)[0];
  return line === undefined ? undefined : `text that begins with ${describe(line.slice(0, 40))}`;
}

/** {@link foreignKind} of a file that should hold JSON and could not be parsed; undefined if it begins like JSON. */
export function foreignToJson(bytes: Uint8Array): string | undefined {
  const head = bytes.subarray(0, headBytes);
  return /^\s*[[{]/.test(textOf(head) ?? "") ? undefined : foreignKind(head);
}

/** Bytes as text if all of them are text; a character may be cut off at the end. */
function textOf(head: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true });
    return /[^\P{Cc}\t\n\r]/u.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}
