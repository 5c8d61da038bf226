import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The project's folder: the clone, or the installed package. */
export const rootFolder = join(dirname(fileURLToPath(import.meta.url)), "../..");
