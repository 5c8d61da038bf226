/** The end of a Worker, of which native code has to hear before the Worker's memory goes. */
import { resolve } from "node:path";
import { libraryInfo } from "./library-info.ts";

let registered = Bun.isMainThread; // the main thread's memory lasts as long as the process

/**
 * Has what this thread's devices do to memory of the Worker's own stopped when the Worker ends, however it does:
 * `worker.terminate()`, `process.exit()` in it, or nothing left to do. No JavaScript runs then, so the library is loaded
 * a second time as a Node-API module, which can register a native hook. Where that fails, the exit of the thread stops
 * the work, a moment after the memory has gone.
 */
export function endWithEnvironment(): void {
  if (registered) return;
  registered = true;
  try {
    process.dlopen({ exports: {} }, resolve(libraryInfo().path)); // a name without a folder would be searched for
  } catch {
    // an engine without Node-API
  }
}
