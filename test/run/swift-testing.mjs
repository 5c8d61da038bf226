// Finds Swift Testing. Xcode's `swift test` knows where it is; that of Apple's command line tools alone does not.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { quick } from "../../swift/scripts/exec.mjs";

/** The tools of this system; on a Mac `developer` is the output of `xcode-select -p`. */
function thisSystem(toolchain) {
  const developer = process.platform === "darwin" ? quick("xcode-select", ["-p"]) : null;
  return { platform: process.platform, swift: toolchain.swift, developer, exists: existsSync };
}

/**
 * The flags of `swift test`: `{flags}`, or `{problem}` if Testing is missing. Only Apple's command
 * line tools need any: the framework's folder, a run path to it and one to the library that it loads, and its macros.
 */
export function testingFlags(system) {
  const { platform, swift, developer, exists } = system;
  const usesTools = platform === "darwin" && /\/CommandLineTools\/?$/.test(developer ?? "") && (swift === "/usr/bin/swift" || swift.startsWith(developer));
  if (!usesTools) return { flags: [] };
  const frameworks = join(developer, "Library/Developer/Frameworks");
  if (!exists(join(frameworks, "Testing.framework"))) {
    return { passed: 0, failed: 0, flags: [], problem: `these command line tools (${developer}) have no Testing framework: install Xcode 16 or later, or newer command line tools, to run Swift's tests` };
  }
  const swiftc = (...flags) => flags.flatMap((flag) => ["-Xswiftc", flag]);
  const linker = (...flags) => flags.flatMap((flag) => ["-Xlinker", flag]);
  return {
    flags: [
      ...swiftc("-F", frameworks, "-plugin-path", join(developer, "usr/lib/swift/host/plugins/testing")),
      ...linker("-rpath", frameworks, "-rpath", join(developer, "Library/Developer/usr/lib")),
      // XCTest comes with Xcode.
      "--disable-xctest",
    ],
  };
}

export function testingOf(toolchain) {
  return testingFlags(thisSystem(toolchain));
}
