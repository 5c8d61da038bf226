/** What `verify` knows about one kind of golden files. */

import type { Device } from "../../device/device.ts";
import type { GoldenFile } from "./golden-file.ts";
import type { Report } from "./report.ts";

export interface Kind {
  /** How the names of its files begin. */
  readonly prefix: string;
  /** The operation that the files are about, for the report. */
  readonly op: string;
  /**
   * Runs the file's case in every way there is and reports each.
   *
   * @throws a typed error where the file is not what its kind says; nothing of it is reported then.
   */
  check(file: GoldenFile, device: Device, report: Report): void;
}
