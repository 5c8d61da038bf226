/** The rules for any JSON string. */
import { anyExcept, ascii, choice, escapedInJson, rule, sequence, text } from "./grammar.ts";
import type { Grammar, Part } from "./grammar.ts";

/** Any JSON string. */
export function anyString(grammar: Grammar): Part {
  if (grammar.has("string")) return rule("string");
  const hex = ascii([[0x30, 0x39], [0x41, 0x46], [0x61, 0x66]]);
  const [notD, d] = [ascii([[0x30, 0x39], [0x41, 0x43], [0x45, 0x46], [0x61, 0x63], [0x65, 0x66]]), ascii([[0x44, 0x44], [0x64, 0x64]])];
  const low = ascii([[0x30, 0x37]]);
  const [high, second] = [ascii([[0x38, 0x39], [0x41, 0x42], [0x61, 0x62]]), ascii([[0x43, 0x46], [0x63, 0x66]])];
  const escape = choice(
    ascii([[0x22, 0x22], [0x2f, 0x2f], [0x5c, 0x5c], [0x62, 0x62], [0x66, 0x66], [0x6e, 0x6e], [0x72, 0x72], [0x74, 0x74]]),
    sequence(text("u"), choice(sequence(notD, hex, hex, hex), sequence(d, choice(sequence(low, hex, hex), sequence(high, hex, hex, text("\\u"), d, second, hex, hex))))),
  );
  const plain = anyExcept(escapedInJson);
  grammar.set("string_escape", escape);
  grammar.set("string_rest", choice(sequence(plain, text('"')), sequence(plain, text("\\"), rule("string_escape"), rule("string_rest"))), "string");
  return grammar.set("string", sequence(text('"'), rule("string_rest")));
}
