/** Failures on request, through `gd_test_fail`. */
import type { Device } from "../../lib/index.ts";
import { asPointer } from "../../lib/native/handle.ts";
import { constants } from "../../lib/native/layout.ts";
import { check } from "../../lib/native/status.ts";
import { native } from "../../lib/device/device-handle.ts";
import { testLibrary } from "./test-library.ts";

const stages = {
  encode: constants.GD_TEST_ENCODE,
  commit: constants.GD_TEST_COMMIT,
  run: constants.GD_TEST_RUN,
} as const;

/**
 * Makes the `count`-th event of a kind from now on fail with the code `device`: an op's encoding, a commit (a plan's run
 * is one), or an op that is committed from now on, when it runs. 0 cancels the request.
 */
export function failAt(device: Device, stage: keyof typeof stages, count = 1): void {
  check(testLibrary().gd_test_fail(asPointer(device[native]), stages[stage], count), "failAt");
}
