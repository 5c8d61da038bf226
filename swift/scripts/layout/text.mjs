// Text that several generated files share.

/** The first line of every generated file. */
export const origin = "Generated from gated_delta.h: change that header and run `node swift/scripts/layout.mjs` again.";

/** Text in lines of a comment. */
export function wrapped(text) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1).length + word.length > 115) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines;
}
