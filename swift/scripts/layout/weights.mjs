// The weight formats of the header, as each side's table.
import { origin } from "./text.mjs";
import { swiftNames } from "./swift.mjs";

/** The formats: the values of the one option that have a layout. */
function formatsOf({ options }) {
  const [option] = options.filter(({ values }) => values.some(({ layout }) => layout !== undefined));
  const dtypes = options.find(({ name }) => name === "DType").values.map(({ name }) => name);
  for (const { name, layout } of option.values) {
    if (layout === undefined) throw new Error(`${option.name}: ${name} has no @block`);
    const { dtype, scales = dtype, biases = dtype } = layout;
    const unknown = [dtype, scales, biases].find((one) => !dtypes.includes(one) && (one !== "float" || one === dtype));
    if (unknown !== undefined) throw new Error(`${option.name}: ${name}: no dtype ${unknown}`);
  }
  return { option, formats: option.values };
}

/** The ways of unpacking blocks, each once. */
function unpackings(formats) {
  const all = formats.flatMap(({ layout }) => (layout.unpack ? [layout.unpack] : []));
  return all.filter((one, i) => all.findIndex((other) => nameOf(other) === nameOf(one)) === i);
}

const nameOf = ({ family, bits }) => `${family.toLowerCase()}${bits}`;

/** For the CPU kernels: every format's row, and every way to unpack. */
export function cpuWeightFormats(parsed) {
  const { formats } = formatsOf(parsed);
  const rows = formats.map(({ constant, layout: { elements, bytes, dtype, unpack } }) => {
    const unpacking = unpack ? `GD_CPU_UNPACK_${nameOf(unpack)}` : "GD_CPU_UNPACK_NONE";
    return `  FORMAT(GD_CPU_${constant.slice(3)}, ${elements}, ${bytes}, GD_CPU_${dtype.toUpperCase()}, ${unpacking})`;
  });
  const packed = unpackings(formats);
  return [
    `/* ${origin} */`,
    "#ifndef GATED_DELTA_CPU_WEIGHT_FORMATS_H",
    "#define GATED_DELTA_CPU_WEIGHT_FORMATS_H",
    "",
    "enum {",
    ["GD_CPU_UNPACK_NONE", ...packed.map((one) => `GD_CPU_UNPACK_${nameOf(one)}`)].map((name) => `  ${name}`).join(",\n"),
    "};",
    "",
    "/* FORMAT(value, elements of a block, bytes of a block, dtype of the tensor, what unpacks it) */",
    `#define GD_CPU_WEIGHT_FORMATS(FORMAT) \\\n${rows.join(" \\\n")}`,
    "",
    "/* UNPACKING(value, family, bits) */",
    `#define GD_CPU_UNPACKINGS(UNPACKING) \\\n${packed
      .map((one) => `  UNPACKING(GD_CPU_UNPACK_${nameOf(one)}, ${one.family.toLowerCase()}, ${one.bits})`)
      .join(" \\\n")}`,
    "",
    "#endif",
    "",
  ].join("\n");
}

/** For the shaders: a macro that instantiates a kernel for every way to unpack. */
export function shaderWeightFormats(parsed) {
  const packed = unpackings(formatsOf(parsed).formats).map((one) => `  INSTANTIATE(function, "${nameOf(one)}", ${one.family}<${one.bits}>)`);
  return [
    `/* ${origin} */`,
    "#ifndef GATED_DELTA_SHADERS_WEIGHT_FORMATS_H",
    "#define GATED_DELTA_SHADERS_WEIGHT_FORMATS_H",
    "",
    "/* INSTANTIATE(function, name, type) for everything that unpacks blocks. */",
    `#define GDM_EACH_UNPACKING(INSTANTIATE, function) \\\n${packed.join(" \\\n")}`,
    "",
    "#endif",
    "",
  ].join("\n");
}

/** For Swift: a layout a format. */
export function swiftWeightFormats(parsed) {
  const { option, formats } = formatsOf(parsed);
  const names = swiftNames(option);
  const companion = (dtype) => (dtype === "float" ? ".floats" : `.only(.${dtype})`);
  const rows = formats.flatMap(({ layout: { elements, bytes, dtype, scales, biases, unpack } }, i) => {
    const parts = [`elements: ${elements}`, `bytes: ${bytes}`, `dtype: .${dtype}`, `kernel: "${unpack ? nameOf(unpack) : dtype}"`];
    if (scales !== undefined) parts.push(`scales: ${companion(scales)}`);
    if (biases !== undefined) parts.push(`biases: ${companion(biases)}`);
    return [`    case .${names[i]}:`, `      WeightLayout(${parts.join(", ")})`];
  });
  return [
    `// ${origin}`,
    "",
    `extension ${option.name} {`,
    "  public var layout: WeightLayout {",
    "    switch self {",
    ...rows,
    "    }",
    "  }",
    "}",
    "",
  ].join("\n");
}

/** For TypeScript: a table from a format's name to its layout. */
export function typescriptWeightFormats(parsed) {
  const { option, formats } = formatsOf(parsed);
  const rows = formats.map(({ name, layout: { elements, bytes, dtype, scales, biases, unpack } }) => {
    const parts = [`elements: ${elements}`, `bytes: ${bytes}`, `dtype: "${dtype}"`];
    if (scales !== undefined) parts.push(`scales: "${scales}"`);
    if (biases !== undefined) parts.push(`biases: "${biases}"`);
    if (unpack !== undefined) parts.push(`family: "${unpack.family.toLowerCase()}"`, `bits: ${unpack.bits}`);
    return `  ${/^[a-z]\w*$/.test(name) ? name : `"${name}"`}: { ${parts.join(", ")} },`;
  });
  return [
    `// ${origin}`,
    "",
    `import type { DType, ${option.name} } from "./options.ts";`,
    "",
    "/** How the rows of a matrix are stored. */",
    "export interface WeightLayout {",
    "  /** Elements of a block: a row is whole blocks. */",
    "  readonly elements: number;",
    "  /** Bytes of a block. */",
    "  readonly bytes: number;",
    "  /** Of the tensor that holds the blocks. */",
    "  readonly dtype: DType;",
    "  /** The dtype of one scale a block, in a tensor of its own; `float` is any float dtype. */",
    '  readonly scales?: DType | "float";',
    "  /** The same for one bias a block; `float` is the dtype of the scales. */",
    '  readonly biases?: DType | "float";',
    "  /** The unpacking of a block, and the bits of a number; absent if the elements are floats. */",
    "  readonly family?: string;",
    "  readonly bits?: number;",
    "}",
    "",
    "/** The layout of every weight format. */",
    `export const weightLayouts: Readonly<Record<${option.name}, WeightLayout>> = {`,
    ...rows,
    "};",
    "",
  ].join("\n");
}
