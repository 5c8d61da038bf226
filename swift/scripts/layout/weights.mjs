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
  const all = formats.flatMap(({ layout }) => (layout.unpack ? [{ ...layout, ...layout.unpack }] : []));
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
    "/* UNPACKING(value, family, bits) for blocks that have a scale in another tensor */",
    `#define GD_CPU_UNPACKINGS(UNPACKING) \\\n${packed
      .filter(({ scales }) => scales !== undefined)
      .map((one) => `  UNPACKING(GD_CPU_UNPACK_${nameOf(one)}, ${one.family.toLowerCase()}, ${one.bits})`)
      .join(" \\\n")}`,
    "",
    "/* UNPACKING(value, family, number, elements, bytes) for blocks that hold all of their factors */",
    `#define GD_CPU_BLOCK_UNPACKINGS(UNPACKING) \\\n${packed
      .filter(({ scales }) => scales === undefined)
      .map((one) => `  UNPACKING(GD_CPU_UNPACK_${nameOf(one)}, ${one.family.toLowerCase()}, ${one.bits}, ${one.elements}, ${one.bytes})`)
      .join(" \\\n")}`,
    "",
    "#endif",
    "",
  ].join("\n");
}

/** Whether the blocks of a format hold all of their factors: then a family's shaders are one, and a constant tells its formats apart. */
const holdsFactors = ({ scales, unpack }) => unpack !== undefined && scales === undefined;

/** The formats of a family whose blocks hold their factors. */
const variantsOf = (formats, family) => formats.filter(({ layout }) => holdsFactors(layout) && layout.unpack.family === family);

/** The suffix of the names of the shaders that unpack a format, and the format's number among those with the same suffix. */
function shaderOf(formats, { constant, layout }) {
  if (!holdsFactors(layout)) return { kernel: layout.unpack ? nameOf(layout.unpack) : layout.dtype, variant: 0 };
  const { family } = layout.unpack;
  return { kernel: family.toLowerCase(), variant: variantsOf(formats, family).findIndex((one) => one.constant === constant) };
}

/** For the shaders: a macro that instantiates a kernel for every way to unpack, and names of the formats of a family. */
export function shaderWeightFormats(parsed) {
  const { formats } = formatsOf(parsed);
  const types = unpackings(formats).map((one) => (holdsFactors(one) ? `"${one.family.toLowerCase()}", ${one.family}` : `"${nameOf(one)}", ${one.family}<${one.bits}>`));
  const packed = [...new Set(types)].map((type) => `  INSTANTIATE(function, ${type})`);
  const families = [...new Set(formats.flatMap(({ layout }) => (holdsFactors(layout) ? [layout.unpack.family] : [])))];
  const names = families.flatMap((family) => [
    "enum {",
    variantsOf(formats, family).map(({ constant }, i) => `  GDM_UNPACK_${constant.replace("GD_FORMAT_", "")} = ${i}`).join(",\n"),
    "};",
    "",
  ]);
  return [
    `/* ${origin} */`,
    "#ifndef GATED_DELTA_SHADERS_WEIGHT_FORMATS_H",
    "#define GATED_DELTA_SHADERS_WEIGHT_FORMATS_H",
    "",
    "/* Formats of families whose blocks hold their factors. */",
    ...names,
    "/* INSTANTIATE(function, name, type) for everything that unpacks blocks. */",
    `#define GDM_EACH_UNPACKING(INSTANTIATE, function) \\\n${packed.join(" \\\n")}`,
    "",
    "#endif",
    "",
  ].join("\n");
}

/** For Swift: a layout per format. */
export function swiftWeightFormats(parsed) {
  const { option, formats } = formatsOf(parsed);
  const names = swiftNames(option);
  const companion = (dtype) => (dtype === "float" ? ".floats" : `.only(.${dtype})`);
  const rows = formats.flatMap((format, i) => {
    const { elements, bytes, dtype, scales, biases } = format.layout;
    const { kernel, variant } = shaderOf(formats, format);
    const parts = [`elements: ${elements}`, `bytes: ${bytes}`, `dtype: .${dtype}`, `kernel: "${kernel}"`];
    if (variant > 0) parts.push(`variant: ${variant}`);
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
    "  /** The unpacking of a block, and its bits of a number or ggml's number of the type; absent if the elements are floats. */",
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
