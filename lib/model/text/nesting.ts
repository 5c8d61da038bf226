/**
 * How deep the values of messages, tools and variables may nest. Their copy and their reading are recursive; where the stack ends in
 * the middle of `JSON.stringify`, JavaScriptCore takes seconds to report it, so values that nest too deep are found before.
 */

/** Arrays and objects within one another. A schema of a tool has some ten. */
export const mostNested = 5000;

/** Whether a value nests at most {@link mostNested} deep. Reads getters, which may throw. A value with a cycle nests deeper. */
export function nestsWithin(value: unknown): boolean {
  const left: [value: unknown, depth: number][] = [[value, 1]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [one, depth] = next;
    if (typeof one !== "object" || one === null || ArrayBuffer.isView(one)) continue;
    if (depth > mostNested) return false;
    // The last member comes first, so a cycle is followed at once, and not widened at each level.
    for (const member of Object.values(one)) if (typeof member === "object" && member !== null) left.push([member, depth + 1]);
  }
  return true;
}
