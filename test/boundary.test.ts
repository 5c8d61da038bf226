/** The C boundary itself: generated files and exports agree with the header, and bad calls fail. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { packageRoot } from "../lib/native/candidates.ts";
import { library } from "../lib/native/library.ts";
import { libraryInfo } from "../lib/native/library-info.ts";
import { constants, structs, symbols, testSymbols } from "../lib/native/layout.ts";
import type { WeightFormat } from "../lib/native/options.ts";
import { weightLayouts, type WeightLayout } from "../lib/native/weight-formats.ts";
import { generate, parse } from "../swift/scripts/layout.mjs";
import { exportsOf } from "./support/exports.ts";
import { testLibrary } from "./support/test-library.ts";
import { ggmlFormats } from "./reference/gguf.ts";
import type { GgmlFormat, GgmlName } from "./reference/gguf.ts";

const headerPath = `${packageRoot}swift/Sources/CGatedDelta/include/gated_delta.h`;
const header = readFileSync(headerPath, "utf8");

describe("generated files", () => {
  for (const [path, text] of generate(header) as Map<string, string>) {
    test(`${path} is what the header gives`, () => {
      expect(existsSync(packageRoot + path) ? readFileSync(packageRoot + path, "utf8") : "missing").toBe(text);
    });
  }

  test("are marked so in .gitattributes", () => {
    const lines = readFileSync(`${packageRoot}.gitattributes`, "utf8").split("\n");
    const marked = lines.filter((line) => /^(lib|shaders|swift)\//.test(line));
    const paths = [...(generate(header) as Map<string, string>).keys()];
    expect(marked).toEqual(paths.map((path) => `${path} linguist-generated`).sort());
  });

  test("layouts are C's", () => {
    const { structs: parsed } = parse(
      "typedef struct gd_a {\n  uint32_t size, version;\n  const int32_t *status;\n  char name[12];\n  float f;\n} gd_a;\n" +
        "typedef struct gd_b {\n  gd_a first, second;\n  uint64_t last;\n} gd_b;\n",
    ) as { structs: Map<string, { size: number; fields: { name: string; offset: number; type: string }[] }> };
    expect(parsed.get("gd_a")).toMatchObject({ size: 32 });
    expect(parsed.get("gd_a")!.fields.map(({ offset }) => offset)).toEqual([0, 4, 8, 16, 28]);
    expect(parsed.get("gd_b")).toMatchObject({ size: 72 });
    expect(parsed.get("gd_b")!.fields.map(({ type }) => type)).toEqual(["gd_a", "gd_a", "u64"]);
  });

  const refused: [name: string, text: string, message: string][] = [
    ["padding between fields", "typedef struct gd_a {\n  uint32_t a;\n  uint64_t b;\n} gd_a;", "padding before b"],
    ["padding at the end", "typedef struct gd_a {\n  uint64_t a;\n  uint32_t b;\n} gd_a;", "padding at its end"],
    ["an unknown type", "typedef struct gd_a {\n  int a;\n} gd_a;", "unknown type int"],
    ["a bit field", "typedef struct gd_a {\n  uint32_t a : 3;\n} gd_a;", "cannot parse"],
    ["an array of numbers", "typedef struct gd_a {\n  float a[4];\n} gd_a;", "array of float"],
    ["a field twice", "typedef struct gd_a {\n  float a, a;\n} gd_a;", "a twice"],
    ["an empty struct", "typedef struct gd_a {\n} gd_a;", "empty"],
    ["a struct twice", "typedef struct gd_a {\n  float a;\n} gd_a;\n".repeat(2), "declared twice"],
    ["another name at the end", "typedef struct gd_a {\n  float a;\n} gd_b;", "is named gd_b"],
    ["an enum", "typedef enum { A } gd_a;", "cannot parse"],
    ["an unknown parameter", "gd_status gd_f(long a);", "unknown parameter type long"],
    ["an unknown pointer", "gd_status gd_f(const gd_what *a);", "unknown type gd_what"],
    ["an unknown result", "uint64_t gd_f(void);", "unknown return type"],
    ["a computed constant", "#define GD_A (1 << 3)", "unknown directive"],
    ["a constant twice", "#define GD_A 1\n#define GD_A 2", "defined twice"],
    ["a condition", "#if 1\n#endif", "unknown directive"],
    ["a line comment", "uint32_t gd_f(void); // why", "line comments"],
  ];
  test.each(refused)("the parser refuses %s", (_, text, message) => {
    expect(() => parse(text)).toThrow(message);
  });
});

describe("options of ops", () => {
  const path = { types: "swift/Sources/GatedDeltaTypes/OpOptions.swift", checks: "swift/Sources/GatedDelta/Validation/OpOptions.swift" };
  /** The generated files for an `rmsNorm` with these additional fields. */
  const withFields = (fields: string) => generate(header.replace("} gd_rms_norm;", `${fields}\n} gd_rms_norm;`)) as Map<string, string>;

  test.each([
    ["uint32_t last_form; /* @is WeightForm @default one-plus-weight */", "lastForm: WeightForm = .plusOne", 'Check.option(given.last_form, "lastForm")'],
    ["uint32_t act; /* @is NormActivation */", "act: Activation", 'Check.option(given.act, "act", among: [.silu, .sigmoid])'],
    ["uint32_t fast; /* @boolean */", "fast: Bool", 'Check.boolean(given.fast, "fast")'],
    ["uint32_t window; /* @from 1 @default 8 */", "window: Int = 8", 'Check.integer(given.window, "window", from: 1)'],
    ["float cap; /* @above 0 @default 30 */", "cap: Float = 30", 'Check.number(given.cap, "cap", above: 0)'],
    ["float gain; /* @default 1 */", "gain: Float = 1", 'Check.number(given.gain, "gain")'],
    ["float scale; /* @default nan */", "scale: Float", "given.scale"],
  ])("%s is carried and checked", (field, declared, check) => {
    const files = withFields(`${field}\nuint32_t more; /* @from 1 */`);
    const name = declared.slice(0, declared.indexOf(":"));
    const options = files.get(path.types)!.split("extension ").find((text) => text.startsWith("RMSNorm "))!;
    expect(options).toMatch(new RegExp(`\n      ${declared.replaceAll(".", "\\.")},?\n`));
    expect(options).not.toContain("more"); // a size
    expect(files.get(path.checks)).toMatch(new RegExp(`\n      ${name}: (try )?${check.replaceAll(/[.()[\]]/g, "\\$&")},?\n`));
  });
});

describe("elementwise ops", () => {
  const withOp = (fields: string) =>
    generate(
      header
        .replace("typedef struct gd_silu_mul {", `typedef struct gd_mul {\n  uint32_t size, version;\n  ${fields}\n} gd_mul; /* @elementwise */\n\ntypedef struct gd_silu_mul {`)
        .replace("gd_status gd_encode_add(", "gd_status gd_encode_mul(gd_handle target, const gd_mul *op);\ngd_status gd_encode_add("),
    ) as Map<string, string>;

  test("one more is checked, run and encoded as the others", () => {
    const files = withOp("gd_tensor left, right, out;");
    const holds = (path: string, line: string) => expect(files.get(path)).toContain(line);
    holds("swift/Sources/GatedDelta/Exports/Encode.swift", 'validator.elementwise(.mul, (left, "left"), (right, "right"), out: out)');
    holds("swift/Sources/CPUKernels/include/option_values.h", "OPERATION(GD_CPU_ELEMENTWISE_MUL, elementwise_mul)");
    holds("shaders/option_values.h", 'INSTANTIATE("gd_mul", Mul)');
    holds("lib/ops/functions.ts", 'export { mul } from "./elementwise.ts";');
    expect(files.get("swift/Sources/GatedDeltaTypes/Op.swift")!.match(/case elementwise\(Elementwise\)/g)?.length).toBe(1);
  });

  test.each(["gd_tensor a, out;", "gd_tensor a, b, c;", "gd_tensor a, b, out;\n  gd_index ids;"])("none has the fields %s", (fields) => {
    expect(() => withOp(fields)).toThrow("gd_mul: an elementwise op has two tensors and out");
  });
});

describe("weight formats", () => {
  const layouts = Object.entries(weightLayouts) as [WeightFormat, WeightLayout][];

  const numbersOf = ({ type, elements, bytes }: GgmlFormat) => ({ type, elements, bytes });

  test("those of a family and its bits are as large as their numbers", () => {
    expect(layouts.length).toBe(37);
    for (const [name, { elements, bytes, bits, family }] of layouts) {
      if (bits === undefined) expect(elements).toBe(1);
      else if (family === "ggml") expect({ type: bits, elements, bytes }).toEqual(numbersOf(ggmlFormats[name as GgmlName]));
      else expect(bytes).toBe((elements * bits) / 8);
    }
  });

  /** The header with additional rows in its table. */
  const withRow = (row: string) => header.replace("#define GD_FORMAT_F32 ", `${row}\n#define GD_FORMAT_F32 `);

  test("the table takes blocks that hold everything, and micro-scaled ones", () => {
    const files = generate(
      withRow("#define GD_FORMAT_Q9_K 100 /* @q9_k @block 256 210 u8 @unpack KQuant 6 */\n#define GD_FORMAT_MX3 101 /* @mx3 @block 32 12 u32 @scales u8 @unpack Tiny 3 */"),
    ) as Map<string, string>;
    const holds = (path: string, ...lines: string[]) => lines.forEach((line) => expect(files.get(path)).toContain(line));
    holds("lib/native/weight-formats.ts", 'q9_k: { elements: 256, bytes: 210, dtype: "u8", family: "kquant", bits: 6 }', 'mx3: { elements: 32, bytes: 12, dtype: "u32", scales: "u8", family: "tiny", bits: 3 }');
    holds("swift/Sources/GatedDeltaTypes/WeightFormats.swift", 'elements: 256, bytes: 210, dtype: .u8, kernel: "kquant")', 'bytes: 12, dtype: .u32, kernel: "tiny3", scales: .only(.u8))');
    holds("swift/Sources/CPUKernels/include/weight_formats.h", "FORMAT(GD_CPU_FORMAT_Q9_K, 256, 210, GD_CPU_U8, GD_CPU_UNPACK_kquant6)", "UNPACKING(GD_CPU_UNPACK_kquant6, kquant, 6, 256, 210)", "UNPACKING(GD_CPU_UNPACK_tiny3, tiny, 3)");
    holds("shaders/weight_formats.h", 'INSTANTIATE(function, "kquant", KQuant)', 'INSTANTIATE(function, "tiny3", Tiny<3>)', "GDM_UNPACK_Q9_K = 0");
  });

  test.each([
    ["without a block", "@q9_k", "no @block"],
    ["without a dtype", "@q9_k @block 256 210", "cannot read"],
    ["of no elements", "@q9_k @block 0 210 u8", "cannot read"],
    ["of an unknown dtype", "@q9_k @block 256 210 u9", "no dtype u9"],
    ["with scales of an unknown dtype", "@q9_k @block 256 210 u8 @scales e8", "no dtype e8"],
    ["unpacked by no bits", "@q9_k @block 256 210 u8 @unpack KQuant", "cannot read"],
    ["with an unknown tag", "@q9_k @block 256 210 u8 @zeros f16", "cannot read"],
  ])("a row %s is refused", (_, row, message) => {
    expect(() => generate(withRow(`#define GD_FORMAT_Q9_K 100 /* ${row} */`))).toThrow(message);
  });
});

describe("the library", () => {
  test("exports the header's functions and nothing else", () => {
    const declared = [...header.replace(/\/\*[\s\S]*?\*\//g, "").matchAll(/\b(gd_\w+)\(/g)].map(([, name]) => name!);
    expect(Object.keys({ ...symbols, ...testSymbols }).sort()).toEqual([...declared].sort());
    // A Node-API host calls this additional one by name.
    expect(exportsOf(libraryInfo().path)).toEqual([...declared, "napi_register_module_v1"].sort());
  });

  test("has the versions of the header and of the package", () => {
    const { version } = JSON.parse(readFileSync(`${packageRoot}package.json`, "utf8")) as { version: string };
    expect(libraryInfo()).toMatchObject({ version, abiVersion: constants.GD_ABI_VERSION });
  });
});

describe("bad calls", () => {
  type Call = (...args: unknown[]) => unknown;
  const calls = Object.entries({ ...symbols, ...testSymbols }).filter(([, { returns }]) => returns === "i32");
  const functions = { ...library(), ...testLibrary() } as unknown as Record<string, Call>;
  const native = (name: string): Call => functions[name]!;
  const lastError = (which: number): string => String(library().gd_last_error(which));

  test.each(calls)("%s refuses a call without anything", (name, { args }) => {
    const status = native(name)(...args.map((type) => (type === "u64" ? 0n : null)));
    expect([constants.GD_ERROR_HANDLE, constants.GD_ERROR_INVALID_ARGUMENT]).toContain(status as never);
    expect(lastError(0)).not.toBe("");
    expect(lastError(3)).not.toBe("");
  });

  // A pointer that is not a handle must be NULL or valid.
  test.each(calls.filter(([name]) => name !== "gd_test_emulate"))("%s refuses handles that are none", (name, { args }) => {
    for (const handle of [1, 2 ** 31, 2 ** 48 + 7, 2 ** 51, 2 ** 52 + 1, 2 ** 53 - 1, -1, 0.5, Number.NaN, Infinity]) {
      const rest = args.slice(1).map((type) => (type === "u64" ? 0n : null));
      const status = native(name)(name === "gd_device_open" ? null : handle, ...rest);
      expect([constants.GD_ERROR_HANDLE, constants.GD_ERROR_INVALID_ARGUMENT]).toContain(status as never);
    }
  });

  test("descriptors full of anything are refused", () => {
    const options = new Uint32Array(new ArrayBuffer(structs.gd_device_options.size));
    options.set([structs.gd_device_options.size, constants.GD_ABI_VERSION, constants.GD_BACKEND_CPU, 1]);
    const device = new Uint32Array(new ArrayBuffer(8));
    expect(native("gd_device_open")(options, device)).toBe(constants.GD_OK);
    const handle = device[0]! + device[1]! * 2 ** 32;
    let seed = 12345;
    const random = (): number => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0);
    const isError = ([name]: [string, number]): boolean => name.startsWith("GD_ERROR_");
    const known = new Set<number>(Object.entries(constants).filter(isError).map(([, code]) => code));
    for (const name of Object.keys(structs).filter((key) => `gd_encode_${key.slice(3)}` in symbols)) {
      const { size, types, offsets } = structs[name as "gd_linear"];
      const words = new Uint32Array(new ArrayBuffer(size));
      for (let round = 0; round < 300; round++) {
        for (let index = 2; index < words.length; index++) words[index] = round % 3 === 0 ? random() : random() % 9;
        words.set([size, constants.GD_ABI_VERSION]);
        // A pointer must be NULL or valid: the one thing that cannot be checked.
        for (const [field, type] of Object.entries(types)) {
          const at = (offsets as Record<string, number>)[field]! + structs.gd_index.offsets.pointer;
          if ((type as string) === "gd_index") words.fill(0, at / 4, at / 4 + 2);
        }
        expect(known).toContain(native(`gd_encode_${name.slice(3)}`)(handle, words) as number);
      }
    }
    expect(native("gd_device_close")(handle)).toBe(constants.GD_OK);
    expect(native("gd_device_close")(handle)).toBe(constants.GD_ERROR_HANDLE);
    expect(lastError(4)).toBe("one that was released");
  });
});
