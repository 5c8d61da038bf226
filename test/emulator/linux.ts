/**
 * describe and test for tests that need the emulator, which is for Linux: on a Mac the same kernels run on the real GPU, and these
 * tests are counted as skipped.
 */
import { describe as always, test as alwaysTest } from "bun:test";

export const onLinux = process.platform === "linux";
export const describe = onLinux ? always : always.skip;
export const test = onLinux ? alwaysTest : alwaysTest.skip;
