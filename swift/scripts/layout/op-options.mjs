// The options of each op: its arguments that are values, as a Swift struct that a validated op carries whole.
import { backendOps, swiftNames } from "./swift.mjs";
import { origin } from "./text.mjs";

/** The ops that have options, with each option's Swift type, default and check. */
function optionOps(parsed) {
  return backendOps(parsed).flatMap((op) => {
    const fields = op.arguments.filter(isOption).map((argument) => fieldOf(argument, parsed));
    return fields.length === 0 ? [] : [{ ...op, fields }];
  });
}

/** An integer without a default is a size of the op, and an option that may be left out stands for what other arguments show. */
function isOption({ kind, default: byDefault, optional }) {
  if (kind === "option") return !optional || byDefault.name !== undefined;
  return kind === "number" || kind === "boolean" || (kind === "integer" && byDefault !== undefined);
}

function fieldOf({ name, field, kind, option, least, above, default: byDefault }, { options }) {
  const check = (call) => `try Check.${call.replace("(", `(given.${field}, "${name}"`)}`;
  if (kind === "boolean") return { name, type: "Bool", check: check("boolean()") };
  if (kind === "integer") return { name, type: "Int", byDefault: `${byDefault}`, check: check(`integer(, from: ${least})`) };
  if (kind === "number") {
    // A default of nan depends on other arguments, and so does the check.
    if (Number.isNaN(byDefault)) return { name, type: "Float", check: `given.${field}` };
    const range = above !== undefined ? `, above: ${above}` : least !== undefined ? `, from: ${least}` : "";
    return { name, type: "Float", byDefault: byDefault === undefined ? undefined : `${byDefault}`, check: check(`number(${range})`) };
  }
  const whole = option.of === undefined ? option : options.find((one) => one.name === option.of);
  const names = swiftNames(whole);
  const swiftName = ({ value }) => `.${names[whole.values.findIndex((one) => one.value === value)]}`;
  const choice = whole === option ? "" : `, among: [${option.values.map(swiftName).join(", ")}]`;
  return { name, type: whole.name, byDefault: byDefault && swiftName(byDefault), check: check(`option(${choice})`) };
}

/** A struct per op. */
export function swiftOpOptions(parsed) {
  const lines = [`// ${origin}`];
  for (const op of optionOps(parsed)) {
    lines.push("", `extension ${op.class} {`, `  /// The options of \`${op.name}\`, validated.`, "  public struct Options: Sendable {");
    lines.push(...op.fields.map(({ name, type }) => `    public var ${name}: ${type}`), "", "    public init(");
    lines.push(op.fields.map(({ name, type, byDefault }) => `      ${name}: ${type}${byDefault === undefined ? "" : ` = ${byDefault}`}`).join(",\n"));
    lines.push("    ) {", ...op.fields.map(({ name }) => `      self.${name} = ${name}`), "    }", "  }", "}");
  }
  return [...lines, ""].join("\n");
}

/** Each op's options from its C struct. */
export function swiftOptionChecks(parsed) {
  const lines = [`// ${origin}`, "", "import CGatedDelta", "import GatedDeltaTypes"];
  for (const { struct, class: type, fields } of optionOps(parsed)) {
    lines.push("", `extension ${type}.Options {`, `  init(_ given: ${struct}) throws(Failure) {`, "    self.init(");
    lines.push(fields.map(({ name, check }) => `      ${name}: ${check}`).join(",\n"), "    )", "  }", "}");
  }
  return [...lines, ""].join("\n");
}
