/**
 * Brings in zod and the schemas of configurations piece by piece, each parsed in the background and run in a turn of its
 * own: where they are required all at once, zod keeps the event loop for 13 ms, and longer on a busy machine.
 *
 * @param pause awaited between the pieces.
 */
export async function importSchemas(pause: () => Promise<void>): Promise<void> {
  await import("zod/v4/core");
  await pause();
  await import("zod/v4/locales");
  await pause();
  await import("zod");
  await pause();
  await import("./config-schemas.ts");
  await pause();
  await import("../layer/layer-schemas.ts");
  await pause();
}
