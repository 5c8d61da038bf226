/**
 * The list of Apple's declarations (swift/Sources/Metal/apple-api.txt) compared with Apple's headers: runs if
 * GATED_DELTA_APPLE_HEADERS names a copy of `Metal.framework/Headers`, which is not committed. Headers before macOS 15 lack
 * newer declarations, which are listed here by name.
 */
import { describe, expect, test } from "bun:test";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { HeaderFiles, declarations, problemOf } from "./support/apple-headers.ts";
import type { Declaration } from "./support/apple-headers.ts";

const folder = process.env["GATED_DELTA_APPLE_HEADERS"];
const list = readFileSync(join(import.meta.dir, "../swift/Sources/Metal/apple-api.txt"), "utf8");

/** Declarations that are new in macOS 15 or later, by the start of their pages. */
const since15 = ["mtlallocation", "mtlmathmode", "mtlmathfloatingpointfunctions", "mtlresidencyset", "mtlcompileoptions/math", "mtllanguageversion/version3_2", "mtllanguageversion/version4_1", "mtldevice/makeresidencyset", "mtlcommandqueue/addresidencyset"];
const isNew = ({ page }: Declaration) => since15.some((start) => page.startsWith(`documentation/metal/${start}`));

describe("the check", () => {
  const headers = new HeaderFiles([
    `
    @protocol MTLThing <NSObject>
    /*! @method notThis: */
    @property (readonly) NSUInteger length;
    @property (nullable, readonly) NSError *error;
    - (nullable id <MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
    - (void)setBuffer:(nullable id <MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index API_AVAILABLE(macos(10.11));
    @end
    typedef NS_ENUM(NSUInteger, MTLKind) {
      MTLKindOne API_DEPRECATED_WITH_REPLACEMENT("MTLKindUno", macos(10.11, 13.0)) = 4,
      MTLKindUno = 4, // the same
      MTLKindTwo = 1 << 1,
    };
    `,
  ]);
  const problem = (text: string, page = `documentation/metal/mtlthing/x`) => problemOf({ page, text }, headers);

  test("finds what is there", () => {
    for (const text of [
      "var length: Int { get }", "var error: (any Error)? { get }", "func makeBuffer(length: Int, options: MTLResourceOptions = []) -> (any MTLBuffer)?",
      "func setBuffer(_ buffer: (any MTLBuffer)?, offset: Int, index: Int)",
    ]) expect(problem(text)).toBe(undefined);
    for (const text of ["case one", "static var uno: MTLKind { get }", "case two"]) expect(problem(text, "documentation/metal/mtlkind/x")).toBe(undefined);
  });

  test("finds what differs", () => {
    expect(problem("var size: Int { get }")).toContain("no property");
    expect(problem("var length: Int { get set }")).toContain("readonly");
    expect(problem("func notThis(_ x: Int)")).toContain("no method");
    expect(problem("func makeBuffer(length: Int) -> (any MTLBuffer)?")).toContain("no method");
    expect(problem("func makeBuffer(length: Int, options: MTLResourceOptions) -> any MTLBuffer")).toContain("nullable");
    expect(problem("case three", "documentation/metal/mtlkind/x")).toContain("no constant");
    expect(problem("case uno", "documentation/metal/mtlkind/x")).toContain("another name");
    expect(problem("static var one: MTLKind { get }", "documentation/metal/mtlkind/x")).toContain("is a case");
    expect(problem("protocol MTLOther : NSObjectProtocol", "documentation/metal/mtlother")).toContain("not declared");
  });
});

test.skipIf(folder === undefined)("apple-api.txt says what Apple's headers say (GATED_DELTA_APPLE_HEADERS)", () => {
  const files = readdirSync(folder!).filter((name) => name.endsWith(".h"));
  const headers = new HeaderFiles(files.map((name) => readFileSync(join(folder!, name), "utf8")));
  const metal = declarations(list).filter(({ page }) => page.startsWith("documentation/metal/"));
  expect(metal.length).toBeGreaterThan(80);
  const before15 = !headers.has("MTLResidencySet");
  const checked = metal.filter((declaration) => !(before15 && isNew(declaration)));
  console.log(`apple-api.txt: ${checked.length} of ${metal.length} declarations compared with ${files.length} headers${before15 ? " of a macOS before 15" : ""}`);
  expect(checked.map((declaration) => problemOf(declaration, headers)).filter((problem) => problem !== undefined)).toEqual([]);
});
