/**
 * The alphabet of byte-level BPE (GPT-2's `bytes_to_unicode`): a vocabulary writes each of the 256 bytes as one character.
 * Printable characters of Latin-1 stand for themselves; the other bytes, in order, are written as U+0100 and up.
 */

const printable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);

/** The character of each byte. */
export const byteCharacters: readonly string[] = (() => {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
})();

const byteOf = new Map(byteCharacters.map((character, byte) => [character.charCodeAt(0), byte]));

/** The bytes of a vocabulary's token. A token with a character outside the alphabet stands for its UTF-8 bytes. */
export function bytesOfToken(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = byteOf.get(token.charCodeAt(i));
    if (byte === undefined) return new TextEncoder().encode(token);
    bytes[i] = byte;
  }
  return bytes;
}
