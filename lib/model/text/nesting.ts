/**
 * How deeply the values of messages, tools and variables may nest. Copying and reading them is recursive; if the stack overflows within
 * `JSON.stringify`, JavaScriptCore takes seconds to report it, so values that nest too deeply are found beforehand.
 */

/** The most arrays and objects within one another. A tool's schema has about ten. */
export const mostNested = 5000;

/** Whether a value nests at most {@link mostNested} deep. Reads getters, which may throw. A value with a cycle nests deeper. */
export function nestsWithin(value: unknown): boolean {
  const left: [value: unknown, depth: number][] = [[value, 1]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [one, depth] = next;
    if (typeof one !== "object" || one === null || ArrayBuffer.isView(one)) continue;
    if (depth > mostNested) return false;
    // The last member comes first, so a cycle is followed at once and not widened at each level.
    for (const member of Object.values(one)) if (typeof member === "object" && member !== null) left.push([member, depth + 1]);
  }
  return true;
}
