// Output of other programs that set-up and the test runner read: a misread line is a wrong count or a wrong mirror.
import { describe, expect, test } from "bun:test";
import { parseSwiftVersion, whyNotPrivate } from "../../swift/scripts/swift.mjs";
import { parseUris } from "../../swift/toolchain/debian.mjs";
import { chooseMirror, parseList, parseSources } from "../../swift/toolchain/mirror.mjs";
import { countBun, countSwiftTesting, countXunit, settle } from "../run/counts.mjs";

describe("counts", () => {
  test("Swift Testing's xunit file", () => {
    const suite = '<testsuites>\n<testsuite name="TestResults" errors="0" tests="7" failures="2" skipped="1" time="0.1">\n</testsuites>';
    expect(countXunit(suite)).toEqual({ passed: 4, failed: 2 });
    expect(countXunit('<testsuite name="a" tests="1" failures="3">')).toEqual({ passed: 0, failed: 1 });
    expect(countXunit("")).toBeNull();
  });

  test("Swift Testing's own lines", () => {
    expect(countSwiftTesting("✔ Test a() passed after 0.1 seconds.\n✔ Test run with 2 tests passed after 0.001 seconds.")).toEqual({
      passed: 2,
      failed: 0,
    });
    const bad = [
      "✘ Test more(n:) recorded an issue with 1 argument n → 1 at T.swift:4:49: Expectation failed: (n → 1) > 1",
      "✘ Test more(n:) failed after 0.001 seconds with 1 issue.",
      "✘ Suite Things failed after 0.001 seconds with 1 issue.",
      "✘ Test run with 5 tests in 1 suite failed after 0.001 seconds with 1 issue.",
    ].join("\n");
    expect(countSwiftTesting(bad)).toEqual({ passed: 4, failed: 1 });
    expect(countSwiftTesting("◇ Test run started.")).toBeNull();
  });

  test("Bun's closing lines, the last ones", () => {
    expect(countBun(" 3 pass\n 0 fail\n 9 expect() calls\nRan 3 tests")).toEqual({ passed: 3, failed: 0, skipped: 0 });
    expect(countBun(" 3 pass\n 1 skip\n 2 fail\n 1 error\n")).toEqual({ passed: 3, failed: 3, skipped: 1 });
    expect(countBun("a test printed\n 9 pass\n...\n 12 pass\n 1 fail\n")).toEqual({ passed: 12, failed: 1, skipped: 0 });
    expect(countBun("panic: Segmentation fault")).toBeNull();
  });

  test("a runner that ends badly has failed, whatever it counted", () => {
    expect(settle({ passed: 5, failed: 0 }, 0)).toEqual({ passed: 5, failed: 0 });
    expect(settle({ passed: 5, failed: 0 }, 139)).toEqual({ passed: 5, failed: 1 });
    expect(settle({ passed: 5, failed: 2 }, 1)).toEqual({ passed: 5, failed: 2 });
    expect(settle(null, 1)).toEqual({ passed: 0, failed: 1 });
    expect(settle({ passed: 0, failed: 0 }, 0)).toEqual({ passed: 0, failed: 1 });
    expect(settle({ passed: 0, failed: 0, skipped: 2 }, 0)).toEqual({ passed: 0, failed: 0 });
  });
});

describe("Swift", () => {
  test("its version, and other programs of that name", () => {
    expect(parseSwiftVersion("Swift version 6.0.3 (swift-6.0.3-RELEASE)\nTarget: x86_64-pc-linux-gnu")).toBe("6.0.3");
    expect(parseSwiftVersion("swift-driver version: 1.120.5 Apple Swift version 6.1 (swiftlang-6.1.0.110.21)")).toBe("6.1");
    expect(parseSwiftVersion("python-swiftclient 4.2.0")).toBeNull();
    expect(parseSwiftVersion(null)).toBeNull();
  });

  test("an unsupported system is told what to do, in one line", () => {
    const debian = { platform: "linux", arch: "x64", libc: [2, 36], debianTools: true };
    expect(whyNotPrivate(debian)).toBeNull();
    expect(whyNotPrivate({ ...debian, libc: [2, 35] })).toBeNull();
    expect(whyNotPrivate({ ...debian, libc: [2, 31] })).toContain("glibc 2.31 is too old");
    expect(whyNotPrivate({ ...debian, libc: null })).toContain("musl");
    expect(whyNotPrivate({ ...debian, arch: "arm64" })).toBeNull();
    expect(whyNotPrivate({ ...debian, arch: "riscv64" })).toContain("x86-64 and arm64 only");
    expect(whyNotPrivate({ ...debian, debianTools: false })).toContain("apt-get");
    expect(whyNotPrivate({ ...debian, platform: "darwin", libc: null })).toContain("xcode-select --install");
    expect(whyNotPrivate({ ...debian, platform: "win32", libc: null })).toContain("WSL 2");
    expect(whyNotPrivate({ ...debian, platform: "freebsd", libc: null })).toContain("freebsd is not supported");
    for (const platform of ["linux", "darwin", "win32", "freebsd"]) {
      expect(whyNotPrivate({ ...debian, platform, libc: null })).not.toContain("\n");
    }
  });
});

describe("Debian's packages", () => {
  test("apt-get --print-uris", () => {
    const text = "Reading package lists...\n'http://m.example/a_1%3a2_amd64.deb' a_1%3a2_amd64.deb 42 SHA256:00\n'http://m.example/b.deb' b.deb 7 MD5Sum:1\n";
    expect(parseUris(text)).toEqual([
      { name: "a_1%3a2_amd64.deb", bytes: 42 },
      { name: "b.deb", bytes: 7 },
    ]);
  });

  test("one-line sources", () => {
    const text = "# deb http://old.example bookworm main\ndeb [arch=amd64 signed-by=/a b.gpg] http://m.example/debian bookworm main contrib # ours\ndeb-src http://s.example bookworm main\n";
    expect(parseList(text)).toEqual([{ uri: "http://m.example/debian", suite: "bookworm", components: ["main", "contrib"] }]);
  });

  test("deb822 sources", () => {
    const text = [
      "Types: deb deb-src",
      "# a comment between",
      "URIs: http://m.example/debian",
      "Suites: bookworm",
      " bookworm-updates",
      "Components: main",
      "",
      "Types: deb",
      "URIs: http://off.example",
      "Suites: bookworm",
      "Components: main",
      "Enabled: no",
    ].join("\n");
    expect(parseSources(text)).toEqual([
      { uri: "http://m.example/debian", suite: "bookworm", components: ["main"] },
      { uri: "http://m.example/debian", suite: "bookworm-updates", components: ["main"] },
    ]);
  });

  test("the mirror is the release's own, not its security archive's or another vendor's", () => {
    const sources = [
      { uri: "http://vendor.example", suite: "nodistro", components: ["main"] },
      { uri: "http://m.example/debian-security", suite: "bookworm-security", components: ["main"] },
      { uri: "http://m.example/debian", suite: "bookworm", components: ["main"] },
    ];
    expect(chooseMirror(sources, "bookworm")).toBe("http://m.example/debian");
    expect(chooseMirror(sources.slice(0, 2), "bookworm")).toBeNull();
  });
});
