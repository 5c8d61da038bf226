/** The emulated Metal of a clone on Linux, which `npm run emulator` builds and tests run on. */
import { dlopen } from "bun:ffi";
import { existsSync } from "node:fs";
import { packageRoot } from "./candidates.ts";
import { testSymbols } from "./layout.ts";

/** The translated kernels: those that `GATED_DELTA_METAL_EMULATOR` names (none where it is empty), or the clone's. */
function translatedKernels(): string | undefined {
  const named = process.env["GATED_DELTA_METAL_EMULATOR"];
  if (named !== undefined) return named === "" ? undefined : named;
  const built = `${packageRoot}.build/emulator/libGatedDeltaShaders.so`;
  return existsSync(built) ? built : undefined;
}

/** Names them to the library of a clone. A published one has no function for it, and looks for nothing itself. */
export function emulateMetal(library: string): void {
  const kernels = translatedKernels();
  if (kernels === undefined) return;
  try {
    dlopen(library, testSymbols).symbols.gd_test_emulate(Buffer.from(`${kernels}\0`));
  } catch {
    // a published library, which GATED_DELTA_LIBRARY may name in a clone too
  }
}
