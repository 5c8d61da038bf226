/** The schema of the files in the user's cache folder. */
import { lazily } from "../../arguments/schemas.ts";

/** An entry of {@link IdentityCache}. */
export const entrySchema = lazily(({ z }) => {
  const digest = z.string().regex(/^[0-9a-f]{64}$/);
  return z.strictObject({ checksum: digest, tensors: z.array(z.tuple([z.string(), digest])) });
});
