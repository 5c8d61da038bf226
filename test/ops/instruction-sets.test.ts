/**
 * The tests of the ops under every instruction set of the CPU's kernels, each in a process of its own: the set in use
 * is decided when the library opens a device. Sets that this processor lacks are named and not run.
 */
import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { Device } from "../../lib/index.ts";
import { runProgram, testOps } from "../support/children.ts";

/** The kernels that are built for each architecture, as GATED_DELTA_ISA names them. */
const built: Readonly<Record<string, readonly string[]>> = {
  x64: ["amx", "avx512bf16", "avx512vnni", "avx512", "avxvnni", "avx2", "baseline"],
  arm64: ["neondot", "neon"],
};

/** Files of the ops' tests that depend on no instruction set, or that others cover with the same kernels. */
const elsewhere = [
  "aliasing", "argument-types", "determinism", "ggml-hazards", "ggml-tables", "kit", "lane-orders", "many-threadgroups", "passes", "products", "refusals",
  "unsupported", "verification",
];
const files = readdirSync(import.meta.dir).flatMap((name) => (name.endsWith(".test.ts") ? [name.slice(0, -".test.ts".length)] : []));
const subjects = files.filter((name) => !elsewhere.includes(name));

/** For sets between the best and the lowest: without tests that other runs cover with the same code. The lowest runs all combinations. */
const between = { subjects, pattern: "^(?!.*(every combination|16 bits count))" };

/** avx512bf16 is the source of avx512 compiled with one more flag: they differ in the rounding to bf16. */
const rounding = { subjects: ["attention", "causal-conv", "dtypes", "elementwise", "embedding", "gated-rms-norm", "golden", "linear", "rms-norm"], pattern: between.pattern };

/** The limits that every form of a linear must respect. */
const ends = ["long-rows", "weight-ends"];

/** These differ from the next set only in the dot products of int8 activations; so does avx512bf16 from amx. */
const dots = { isas: ["amx", "avx512vnni", "avxvnni", "neondot"], subjects: ["int8", "int8-offsets", "instruction-sets", ...ends], pattern: "" };

/** The share of the tests that runs under a forced set, where `best` would be in use otherwise. */
function shareOf(isa: string, best: string): { readonly subjects: readonly string[]; readonly pattern: string } {
  if (dots.isas.includes(isa) || (isa === "avx512bf16" && best === "amx")) return dots;
  if (isa === built[process.arch]?.at(-1)) return { subjects, pattern: "" };
  return isa === "avx512" && (best === "amx" || best === "avx512bf16") ? rounding : between;
}

const forced = process.env["GATED_DELTA_ISA"];

/** A share of the random cases: this process runs all of them on the best instruction set. */
const environment = (isa: string) => ({
  GATED_DELTA_ISA: isa,
  GATED_DELTA_TEST_BACKENDS: "cpu",
  GATED_DELTA_TEST_SHARE: "0.1",
});

/** A device's description of itself under an instruction set. */
function opened(isa: string, others: Readonly<Record<string, string>> = {}) {
  return runProgram(
    { ...environment(isa), ...others },
    `import { Device } from "ROOT/lib/index.ts";
    try { console.log(Device.open("cpu").isa); } catch (error) { console.log(error.message); process.exit(1); }`,
  );
}

if (forced === undefined) {
  test("the files that are left out are there", () => expect(elsewhere.filter((name) => !files.includes(name))).toEqual([]));

  describe("every instruction set by force", () => {
    using device = Device.open("cpu");
    const best = device.isa;
    for (const isa of built[process.arch] ?? []) {
      const { ok, text } = opened(isa);
      if (!ok && !text.includes("GATED_DELTA_ISA")) throw new Error(`no device under ${isa}: ${text}`);
      if (!ok) {
        console.log(`Not run with GATED_DELTA_ISA=${isa}: ${text.trim()}`);
        continue;
      }
      if (isa === best && process.env["GATED_DELTA_TEST_BACKENDS"] !== "metal") {
        // It is in use even if not forced: the tests of the ops run on it with all of their cases.
        test(isa, () => expect(text.trim()).toBe(isa));
        continue;
      }
      test(
        isa,
        () => {
          const run = shareOf(isa, best);
          const passed = testOps(environment(isa), run.subjects, run.pattern);
          expect(passed).toBeGreaterThan(run.subjects.length); // it found the files
          console.log(`${isa}: ${passed} tests of the ops passed`);
        },
        600_000,
      );
    }

    // The kernels of several rows differ by processor: a Zen 4, a Zen 5, and two Intel processors.
    for (const [pages, wide] of [["0", "0"], ["0", "1"], ["4", "1"], ["8", "1"]] as const) {
      test(`memory asked for by ${pages} pages in turn, units of ${wide === "1" ? 512 : 256} bits`, () => {
        const isa = opened("avx512vnni").ok ? "avx512vnni" : best;
        const choices = { GATED_DELTA_PAGES: pages, GATED_DELTA_WIDE: wide };
        expect(testOps({ ...environment(isa), ...choices }, ["int8", "linear", "linear-quantised", ...ends])).toBeGreaterThan(2);
      }, 600_000);
    }

    test("other choices than a processor's are refused by name", () => {
      for (const [name, value, expected] of [["PAGES", "3", "0, 4 or 8"], ["PAGES", "four", "0, 4 or 8"], ["WIDE", "2", "0 or 1"], ["WIDE", "-1", "0 or 1"]] as const) {
        const { ok, text } = opened(best, { [`GATED_DELTA_${name}`]: value });
        expect(ok).toBe(false);
        expect(text).toContain(`GATED_DELTA_${name}: expected ${expected}, got ${value}`);
      }
    });

    test("one that is unknown is refused by name", () => {
      const { ok, text } = opened("mmx");
      expect(ok).toBe(false);
      expect(text).toContain("GATED_DELTA_ISA");
      expect(text).toContain("mmx");
    });
  });
} else {
  test(`${forced} is in use`, () => {
    using device = Device.open("cpu");
    expect(device.isa).toBe(forced);
  });
}
