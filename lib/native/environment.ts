/** Tells native code that a Worker is ending, before the Worker's memory is freed. */
import { resolve } from "node:path";
import { libraryInfo } from "./library-info.ts";

let registered = Bun.isMainThread; // the main thread's memory lasts as long as the process

/**
 * Makes sure that this thread's devices stop using the Worker's memory when the Worker ends, by `worker.terminate()`, by
 * `process.exit()` inside it, or by running out of work. No JavaScript runs then, so the library is loaded a second time
 * as a Node-API module, which can register a native hook. If that fails, the exit of the thread stops the work, shortly
 * after the memory is freed.
 */
export function endWithEnvironment(): void {
  if (registered) return;
  registered = true;
  try {
    process.dlopen({ exports: {} }, resolve(libraryInfo().path)); // the loader would search for a name without a folder
  } catch {
    // an engine without Node-API
  }
}
