/** Problems on a Mac that need no GPU to test: Apple's tools without Xcode, and variables that Apple's compiler keeps in memory. */
import { describe, expect, test } from "bun:test";
import { allocas } from "./run/air.mjs";
import { testingFlags } from "./run/swift-testing.mjs";

const tools = "/Library/Developer/CommandLineTools";

describe("Swift Testing", () => {
  const mac = (developer: string | null, there: boolean, swift = "/usr/bin/swift") =>
    testingFlags({ platform: "darwin", swift, developer, exists: (path: string) => there && path === `${tools}/Library/Developer/Frameworks/Testing.framework` });

  test("the command line tools are told where it is: frameworks, two run paths, macros", () => {
    const { flags } = mac(tools, true);
    const pairs = (flag: string) => flags.flatMap((word: string, i: number) => (word === flag ? [flags[i + 1]] : []));
    expect(pairs("-Xswiftc")).toEqual(["-F", `${tools}/Library/Developer/Frameworks`, "-plugin-path", `${tools}/usr/lib/swift/host/plugins/testing`]);
    expect(pairs("-Xlinker")).toEqual(["-rpath", `${tools}/Library/Developer/Frameworks`, "-rpath", `${tools}/Library/Developer/usr/lib`]);
    expect(flags).toContain("--disable-xctest");
  });

  test("tools without it are named, and nothing is run", () => {
    expect(mac(tools, false).problem).toContain(`${tools}) have no Testing framework`);
  });

  test("Xcode, a toolchain of swift.org and other systems need nothing", () => {
    expect(mac("/Applications/Xcode.app/Contents/Developer", false)).toEqual({ flags: [] });
    expect(mac(tools, false, "/Library/Developer/Toolchains/swift-6.0.3.xctoolchain/usr/bin/swift")).toEqual({ flags: [] });
    expect(testingFlags({ platform: "linux", swift: "/usr/bin/swift", developer: null, exists: () => false })).toEqual({ flags: [] });
  });
});

describe("arrays that Apple's compiler left in memory", () => {
  const kernel = (name: string, body: string) => `define void @${name}(ptr addrspace(1) %0) local_unnamed_addr #0 {\n${body}\n  ret void\n}\n`;
  const clean = "  %2 = load float, ptr addrspace(1) %0, align 4";
  const array = "  %2 = alloca [4 x <4 x float>], align 16";

  test("are found by kernel", () => {
    const text = kernel("gd_decode_f32_f32_k64", clean) + kernel("gd_step_f32_f32_k64", `${clean}\n${array}\n${array}`) + kernel('"gd_conv_f32"', array);
    expect(allocas(text)).toEqual([
      { kernel: "gd_step_f32_f32_k64", line: array.trim() },
      { kernel: "gd_conv_f32", line: array.trim() },
    ]);
  });

  test("those of kernels that are not hot, and of other functions, are let be", () => {
    expect(allocas(kernel("gd_embedding_f32", array) + kernel("_ZN5metal4sincEf", array) + kernel("gd_norm_f32", clean))).toEqual([]);
  });

  test("a text without kernels is no pass", () => {
    expect(() => allocas(kernel("main", clean))).toThrow("no kernel of this project");
  });
});
