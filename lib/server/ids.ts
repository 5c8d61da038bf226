/** Identifiers as clients expect them: a prefix and letters that no other has. */
export function newId(prefix: string): string {
  return `${prefix}${crypto.randomUUID().replaceAll("-", "")}`;
}
