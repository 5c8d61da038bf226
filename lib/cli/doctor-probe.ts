/**
 * The program that `doctor` runs in a separate process: it loads the library, opens each backend, finds the weights of the model
 * in the folder given as its argument, and writes its findings as one line of JSON. A crash of the library ends only this process.
 */

import { Device } from "../device/device.ts";
import { GatedDeltaError } from "../errors.ts";
import { weighModel } from "../model/load-weights.ts";
import { libraryInfo } from "../native/library-info.ts";
import type { WeightBytes } from "../checkpoint/tensor-loader.ts";
import { errorText } from "./command.ts";

/** A backend that could be opened, or "none" with the reason. */
export type ProbedDevice =
  | { readonly name: string; readonly isa: string; readonly threads: number; readonly emulated: boolean }
  | { readonly error: string };

/** The probe's findings. */
export type Probe =
  | {
      readonly path: string;
      readonly source: string;
      readonly version: string;
      readonly abiVersion: number;
      readonly auto: string;
      readonly cpu: ProbedDevice;
      readonly metal: ProbedDevice;
      /** Bytes of the folder's weights; undefined without a folder. */
      readonly weights?: ProbedWeights;
    }
  | { readonly error: string };

/** Bytes of weights that `weights: "mapped"` maps and copies, or the reason why the model does not load. */
export type ProbedWeights = WeightBytes | { readonly error: string };

function device(backend: "cpu" | "metal"): ProbedDevice {
  try {
    using opened = Device.open({ backend });
    const { name, isa, threads, emulated } = opened;
    return { name, isa, threads, emulated };
  } catch (error) {
    // For a backend that does not exist on this system, the error names the system.
    const none = error instanceof GatedDeltaError && error.received?.startsWith("none on ") ? error.received : undefined;
    return { error: none ?? `none: ${errorText(error)}` };
  }
}

function automatic(): string {
  try {
    using opened = Device.open({ backend: "auto" });
    return opened.backend;
  } catch (error) {
    return `none: ${errorText(error)}`;
  }
}

async function weightsOf(folder: string): Promise<ProbedWeights> {
  try {
    using opened = Device.open("cpu");
    return await weighModel(opened, folder);
  } catch (error) {
    return { error: errorText(error) };
  }
}

/** Loads the library and examines its backends. */
async function probe(folder: string | undefined): Promise<Probe> {
  try {
    const { path, source, version, abiVersion } = libraryInfo();
    const found = { path, source, version, abiVersion, auto: automatic(), cpu: device("cpu"), metal: device("metal") };
    return folder === undefined ? found : { ...found, weights: await weightsOf(folder) };
  } catch (error) {
    return { error: errorText(error) };
  }
}

if (import.meta.main) process.stdout.write(`${JSON.stringify(await probe(process.argv[2]))}\n`);
