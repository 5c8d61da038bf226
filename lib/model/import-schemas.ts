import { nextTurn } from "../turns.ts";

/**
 * Imports zod and the schemas of configurations one by one, each parsed in the background and run in another turn. All at once
 * would block the event loop for 13 ms, and longer on a busy machine.
 */
export async function importSchemas(): Promise<void> {
  await import("zod/v4/core");
  await nextTurn();
  await import("zod/v4/locales");
  await nextTurn();
  await import("zod");
  await nextTurn();
  await import("../arguments/schema-parts.ts");
  await nextTurn();
  await import("./config-schemas.ts");
  await nextTurn();
  await import("../checkpoint/mixer-schemas.ts");
  await nextTurn();
  await import("./families/index.ts");
  await nextTurn();
}
