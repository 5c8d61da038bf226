// The functions that replace those of a newer glibc inside the Swift runtime, compared with C23's definitions.
import { CString, dlopen, ptr } from "bun:ffi";
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./folder.ts";

const source = join(import.meta.dir, "../../swift/toolchain/glibc.c");

// Needed only on Linux.
if (process.platform === "linux") {
  describe("swift/toolchain/glibc.c", () => {
    using place = temporaryFolder();
    const wrapper = join(place.path, "wrapper.c");
    const library = join(place.path, "library.so");
    // The functions are hidden in their own file, as they must be; the wrapper exports them.
    writeFileSync(
      wrapper,
      `#define __isoc23_strtoll standIn_strtoll
#define __isoc23_strtol standIn_strtol
#define __isoc23_sscanf standIn_sscanf
#define strlcpy standIn_strlcpy
#include ${JSON.stringify(source)}
long long callStrtoll(const char *text, long long *used, int base) {
  char *end = 0;
  long long value = standIn_strtoll(text, &end, base);
  *used = end - text;
  if (standIn_strtol(text, 0, base) != value) *used = -1;
  return value;
}
int callSscanf(const char *text, int *value) { return standIn_sscanf(text, "%d", value); }
size_t callStrlcpy(char *to, const char *from, size_t bytes) { return standIn_strlcpy(to, from, bytes); }
`,
    );
    const compiler = process.env["GATED_DELTA_CLANG"] ?? "cc";
    const built = Bun.spawnSync([compiler, "-x", "c", "-shared", "-fPIC", "-fno-builtin", "-nodefaultlibs", "-O1", wrapper, "-o", library]);
    if (!built.success) throw new Error(`${compiler}: ${built.stderr}`);
    const { symbols } = dlopen(library, {
      callStrtoll: { args: ["ptr", "ptr", "i32"], returns: "i64" },
      callSscanf: { args: ["ptr", "ptr"], returns: "i32" },
      callStrlcpy: { args: ["ptr", "ptr", "u64"], returns: "u64" },
    });

    function text(value: string): Uint8Array {
      return new TextEncoder().encode(`${value}\0`);
    }

    function strtoll(value: string, base: number): [bigint, bigint] {
      const used = new BigInt64Array(1);
      const result = symbols.callStrtoll(ptr(text(value)), ptr(used), base);
      return [BigInt(result), used[0] ?? -1n];
    }

    test("numbers without the prefix are read as ever", () => {
      expect(strtoll("  -12x", 10)).toEqual([-12n, 5n]);
      expect(strtoll("0x1F", 0)).toEqual([31n, 4n]);
      expect(strtoll("017", 0)).toEqual([15n, 3n]);
      expect(strtoll("101", 2)).toEqual([5n, 3n]);
      expect(strtoll("0b1", 16)).toEqual([0xb1n, 3n]);
      expect(strtoll("0b1", 10)).toEqual([0n, 1n]);
      expect(strtoll("", 0)).toEqual([0n, 0n]);
    });

    test("the binary prefix, with base 0 and 2", () => {
      for (const base of [0, 2]) {
        expect(strtoll("0b101", base)).toEqual([5n, 5n]);
        expect(strtoll(" +0B11z", base)).toEqual([3n, 6n]);
        expect(strtoll("-0b110", base)).toEqual([-6n, 6n]);
        expect(strtoll("-0b0", base)).toEqual([0n, 4n]);
        expect(strtoll("0b2", base)).toEqual([0n, 1n]);
        expect(strtoll("0b", base)).toEqual([0n, 1n]);
      }
    });

    test("limits, and more digits than fit", () => {
      expect(strtoll(`-0b1${"0".repeat(63)}`, 0)).toEqual([-(2n ** 63n), 67n]);
      expect(strtoll(`0b${"1".repeat(63)}`, 0)).toEqual([2n ** 63n - 1n, 65n]);
      expect(strtoll(`-0b${"0".repeat(300)}11`, 0)).toEqual([-3n, 305n]);
      expect(strtoll(`-0b${"1".repeat(300)}`, 0)).toEqual([-(2n ** 63n), 303n]);
      expect(strtoll(`0b${"1".repeat(300)}`, 0)).toEqual([2n ** 63n - 1n, 302n]);
    });

    test("sscanf passes its arguments on", () => {
      const value = new Int32Array(1);
      expect(symbols.callSscanf(ptr(text("42 apples")), ptr(value))).toBe(1);
      expect(value[0]).toBe(42);
    });

    test("strlcpy cuts, ends and tells the whole length", () => {
      const to = new Uint8Array(8).fill(0x7a);
      expect(symbols.callStrlcpy(ptr(to), ptr(text("hello")), 4n)).toBe(5n);
      expect(new CString(ptr(to)).toString()).toBe("hel");
      expect(to[4]).toBe(0x7a);
      expect(symbols.callStrlcpy(ptr(to), ptr(text("hello")), 8n)).toBe(5n);
      expect(new CString(ptr(to)).toString()).toBe("hello");
      to.fill(0x7a);
      expect(symbols.callStrlcpy(ptr(to), ptr(text("hello")), 0n)).toBe(5n);
      expect(to[0]).toBe(0x7a);
    });
  });
}
