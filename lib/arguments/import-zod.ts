import { nextTurn } from "../turns.ts";

/**
 * Imports zod one part at a time, each parsed in the background and run in another turn. All at once would block the event
 * loop for 13 ms, and longer on a busy machine.
 */
export async function importZod(): Promise<void> {
  await import("zod/v4/core");
  await nextTurn();
  await import("zod/v4/locales");
  await nextTurn();
  await import("zod");
  await nextTurn();
  await import("./schema-parts.ts");
  await nextTurn();
}
