/** The zod schema of entries in the user's cache folder. Loaded with the first model: importing zod takes 13 ms. */
import { z } from "zod";

const digest = z.string().regex(/^[0-9a-f]{64}$/);

/** An entry of {@link IdentityCache}. */
export const entrySchema = z.strictObject({ checksum: digest, tensors: z.array(z.tuple([z.string(), digest])) });
