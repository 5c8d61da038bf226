/** An identifier as clients expect it: a prefix and unique letters. */
export function newId(prefix: string): string {
  return `${prefix}${crypto.randomUUID().replaceAll("-", "")}`;
}
