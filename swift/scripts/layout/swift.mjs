// The Swift files: an enum for each option, and the encoding functions.
import { origin, wrapped } from "./text.mjs";

/** Words that Swift writes in capitals inside a name. */
const initialisms = new Set(["SSM", "RMS"]);

/** `NEG_LOG` as `negLog`, `RAW_SSM` as `rawSSM`. */
function camelCase(words) {
  return words
    .split("_")
    .map((word, i) => (word === "" || i === 0 ? word.toLowerCase() : initialisms.has(word) ? word : word[0] + word.slice(1).toLowerCase()))
    .join("");
}

/** The prefix that the constants of an option share, as far as its names go. */
export function swiftNames({ values }) {
  const split = values.map(({ constant }) => constant.split("_").slice(1));
  // `norm-then-gate` and `gate-then-norm` share nothing; the others share one word.
  const shared = split.every(([first]) => first === split[0][0]) && split.every((words) => words.length > 1);
  return split.map((words) => camelCase((shared ? words.slice(1) : words).join("_")));
}

/** The option enums. */
export function swiftOptions({ options, operations }) {
  const lines = [
    `// ${origin}`,
    "",
    "/// An option with the name that the public (TypeScript) API has for it: messages use it.",
    "public protocol NamedOption: RawRepresentable<UInt32>, CaseIterable, Sendable {",
    "  var publicName: String { get }",
    "}",
  ];
  for (const option of [...options, operations]) {
    if (option.of !== undefined) continue;
    const names = swiftNames(option);
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
  const lines = [`// ${origin}`, "", "import CGatedDelta", "import GatedDeltaTypes"];
  for (const op of ops) {
    const { name, struct, encode, elementwise } = op;
    const swiftName = `encode${name[0].toUpperCase()}${name.slice(1)}`;
    lines.push(
      "",
      `extension ${struct}${elementwise ? ": OpDescriptor" : ""} {`,
      `  static var opName: StaticString { "${name}" }`,
      ...(elementwise ? elementwiseValidation(op) : []),
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

function elementwiseValidation(op) {
  const [first, second] = op.arguments.slice(0, 2).map(({ name, field }) => `(${field}, "${name}")`);
  return [
    "",
    "  func validate(_ validator: inout Validator) throws(Failure) {",
    `    try validator.elementwise(.${swiftCase(op)}, ${first}, ${second}, out: out)`,
    "  }",
  ];
}

/** `gatedDelta` and others as Swift writes them: the case of `Op`, and with a capital the class. */
const swiftCase = ({ struct }) => camelCase(struct.slice(3).toUpperCase());
const className = ({ struct }) => camelCase(`_${struct.slice(3).toUpperCase()}`);

/** The ops that backends run, those of the main module; all elementwise ones are one. An op with index data has sequences. */
export function backendOps({ ops }) {
  const own = ops.filter(({ module }) => module === undefined);
  const first = own.find(({ elementwise }) => elementwise);
  return own.filter((op) => !op.elementwise || op === first).map((op) => {
    if (op === first) return { arguments: [], case: "elementwise", class: "Elementwise", ragged: false, elementwise: true };
    const flat = op.arguments.flatMap((argument) => argument.members ?? [argument]);
    return { ...op, case: swiftCase(op), class: className(op), ragged: flat.some(({ kind }) => kind === "indices") };
  });
}

/** The enum of validated ops. */
export function swiftOps(parsed) {
  const ops = backendOps(parsed);
  const ragged = ops.filter((op) => op.ragged);
  const plain = ops.filter((op) => !op.ragged).map((op) => `.${op.case}`);
  return [
    `// ${origin}`,
    "",
    "/// A validated op and, if it has any, the part that index data decides.",
    "public enum Op: Sendable {",
    ...ops.map((op) => `  case ${op.case}(${op.class}${op.ragged ? ", Sequences" : ""})`),
    "",
    "  /// The public name, for messages.",
    "  public var name: String {",
    "    switch self {",
    ...ops.map((op) => (op.elementwise ? "    case .elementwise(let op): op.operation.publicName" : `    case .${op.case}: "${op.name}"`)),
    "    }",
    "  }",
    "",
    "  /// The part that index data decides; nil for ops without any.",
    "  public var sequences: Sequences? {",
    "    get {",
    "      switch self {",
    ...ragged.map((op) => `      case .${op.case}(_, let sequences): sequences`),
    `      case ${plain.join(", ")}: nil`,
    "      }",
    "    }",
    "    set {",
    "      guard let newValue else { return }",
    "      switch self {",
    ...ragged.map((op) => `      case .${op.case}(let op, _): self = .${op.case}(op, newValue)`),
    `      case ${plain.join(", ")}: break`,
    "      }",
    "    }",
    "  }",
    "}",
    "",
    "extension ElementwiseOperation {",
    "  /// The name of its Metal kernels, without dtypes.",
    "  public var kernel: String {",
    "    switch self {",
    ...parsed.ops.filter(({ elementwise }) => elementwise).map((op) => `    case .${swiftCase(op)}: "${op.struct}"`),
    "    }",
    "  }",
    "}",
    "",
  ].join("\n");
}

/** The CPU backend's dispatch from an op to its function. */
export function swiftExecutor(parsed) {
  return [
    `// ${origin}`,
    "",
    "import GatedDeltaTypes",
    "",
    "extension Executor {",
    "  func run(_ ops: [EncodedOp], _ index: Int) throws(Failure) {",
    "    switch ops[index].op {",
    ...backendOps(parsed).map((op) =>
      op.ragged ? `    case .${op.case}(let op, let sequences): try run(op, sequences)` : `    case .${op.case}(let op): try run(op)`,
    ),
    "    }",
    "  }",
    "}",
    "",
  ].join("\n");
}

/** The Metal backend's dispatch from an op to its function, and to its share of a GPU's time. */
export function swiftPass(parsed) {
  const ops = backendOps(parsed);
  return [
    `// ${origin}`,
    "",
    "import GatedDeltaTypes",
    "",
    "extension Pass {",
    "  mutating func encode(_ op: Op) throws(Failure) {",
    "    switch op {",
    ...ops.map((op) =>
      op.ragged ? `    case .${op.case}(let op, let sequences): try encode(op, sequences)` : `    case .${op.case}(let op): try encode(op)`,
    ),
    "    }",
    "  }",
    "}",
    "",
    "extension Op {",
    "  /// Multiply-adds, roughly.",
    "  var work: Int {",
    "    switch self {",
    ...ops.map((op) => (op.ragged ? `    case .${op.case}(let op, let sequences): op.work(sequences)` : `    case .${op.case}(let op): op.work`)),
    "    }",
    "  }",
    "}",
    "",
  ].join("\n");
}
