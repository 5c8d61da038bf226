// All of set-up, in order. Each step checks in milliseconds whether it is done, and runs under the lock of this clone.
import { join } from "node:path";
import { buildLibrary, lastToolchain, libraryIsCurrent } from "./build.mjs";
import { currentBun, dependenciesAreCurrent, installDependencies, isClone } from "./dependencies.mjs";
import { withLock } from "./lock.mjs";
import { findSwift } from "./swift.mjs";

/**
 * A step: `isDone(state)` decides in milliseconds from stamps, `work(state)` does it; `find`, if present, first puts into the
 * state what the step and its successors need (the toolchain). Further builds are further entries.
 */
const steps = [
  {
    name: "dependencies",
    isDone: ({ root }) => !isClone(root) || dependenciesAreCurrent(root),
    work: ({ root }) => installDependencies(root),
  },
  {
    name: "library",
    find: async (state) => {
      state.toolchain = await findSwift(lastToolchain(state.root));
    },
    isDone: ({ root, toolchain }) => libraryIsCurrent(root, toolchain),
    work: ({ root, toolchain }) => buildLibrary(root, toolchain),
  },
];

/**
 * Sets everything up in `root`, or only the steps named. Returns what was found: `{root, bun, toolchain}`. Takes milliseconds
 * when all is done.
 */
export async function setUp(root, names = steps.map(({ name }) => name)) {
  const state = { root };
  for (const step of steps.filter(({ name }) => names.includes(name))) {
    await step.find?.(state);
    if (step.isDone(state)) continue;
    await withLock(join(root, ".build", "lock"), "set-up of this folder", async () => {
      if (!step.isDone(state)) await step.work(state);
    });
  }
  state.bun = currentBun(root);
  return state;
}
