// What Swift gets: an enum an option, and the functions that encode.
import { origin, wrapped } from "./text.mjs";

/** Words that Swift writes in capitals inside a name. */
const initialisms = new Set(["SSM", "RMS"]);

/** `NEG_LOG` as `negLog`, `RAW_SSM` as `rawSSM`. */
function camelCase(words) {
  return words
    .split("_")
    .map((word, i) => (i === 0 ? word.toLowerCase() : initialisms.has(word) ? word : word[0] + word.slice(1).toLowerCase()))
    .join("");
}

/** The prefix that the constants of an option share, as far as its names go. */
function caseNames({ values }) {
  const split = values.map(({ constant }) => constant.split("_").slice(1));
  // `norm-then-gate` and `gate-then-norm` share nothing; the others share one word.
  const shared = split.every(([first]) => first === split[0][0]) && split.every((words) => words.length > 1);
  return split.map((words) => camelCase((shared ? words.slice(1) : words).join("_")));
}

/** The option enums. */
export function swiftOptions({ options }) {
  const lines = [
    `// ${origin}`,
    "",
    "/// An option with the name that the public (TypeScript) API has for it: messages use it.",
    "public protocol NamedOption: RawRepresentable<UInt32>, CaseIterable, Sendable {",
    "  var publicName: String { get }",
    "}",
  ];
  for (const option of options) {
    if (option.of !== undefined) continue;
    const names = caseNames(option);
    lines.push("", ...wrapped(sentence(option.text)).map((line) => `/// ${line}`), `public enum ${option.name}: UInt32, NamedOption {`);
    option.values.forEach(({ value, text }, i) => {
      if (text !== undefined) lines.push(`  /// ${text}`);
      lines.push(`  case ${names[i]} = ${value}`);
    });
    lines.push("", "  public var publicName: String {", "    switch self {");
    option.values.forEach(({ name }, i) => lines.push(`    case .${names[i]}: "${name}"`));
    lines.push("    }", "  }", "}");
  }
  return [...lines, ""].join("\n");
}

function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}

/** `gd_encode_*`, and each struct's public name. */
export function swiftEncoders({ ops }) {
  const lines = [`// ${origin}`, "", "import CGatedDelta"];
  for (const { name, struct, encode } of ops) {
    const swiftName = `encode${name[0].toUpperCase()}${name.slice(1)}`;
    lines.push(
      "",
      `extension ${struct} {`,
      `  static var opName: StaticString { "${name}" }`,
      "}",
      "",
      `@_cdecl("${encode}")`,
      `public func ${swiftName}(_ target: UInt64, _ op: UnsafePointer<${struct}>?) -> gd_status {`,
      "  encode(op, into: target)",
      "}",
    );
  }
  return [...lines, ""].join("\n");
}
