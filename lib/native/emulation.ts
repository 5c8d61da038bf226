/** The emulated Metal of a clone on Linux, which `npm run emulator` builds for tests. */
import { dlopen } from "bun:ffi";
import { existsSync } from "node:fs";
import { packageRoot } from "./candidates.ts";
import { testSymbols } from "./layout.ts";

/** The path of the translated kernels: `GATED_DELTA_METAL_EMULATOR` (empty for none), or the clone's build. */
function translatedKernels(): string | undefined {
  const named = process.env["GATED_DELTA_METAL_EMULATOR"];
  if (named !== undefined) return named === "" ? undefined : named;
  const built = `${packageRoot}.build/emulator/libGatedDeltaShaders.so`;
  return existsSync(built) ? built : undefined;
}

/** Tells a clone's library where the translated kernels are. A published library has no such function and never looks for them. */
export function emulateMetal(library: string): void {
  const kernels = translatedKernels();
  if (kernels === undefined) return;
  try {
    dlopen(library, testSymbols).symbols.gd_test_emulate(Buffer.from(`${kernels}\0`));
  } catch {
    // GATED_DELTA_LIBRARY may name a published library
  }
}
