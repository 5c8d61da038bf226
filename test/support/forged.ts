/** Sessions' files as another program could write them, with correct checksums. */
import { openSafetensors, writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";

/** Writes a changed copy of a session's file. */
export function forgeSession(path: string, to: string, change: (tensors: Map<string, TensorToWrite & { readonly data: Uint8Array }>) => void): string {
  using file = openSafetensors(path);
  const changed = new Map(file.names.map((name) => [name, { dtype: file.info(name).dtype, shape: file.info(name).shape, data: file.read(name) as Uint8Array }]));
  change(changed);
  const tensors = new Map([...changed].sort(([a], [b]) => (a < b ? -1 : 1)));
  const { sha256: _, ...metadata } = Object.fromEntries(file.metadata);
  const hash = new Bun.CryptoHasher("sha256").update(JSON.stringify(Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1))));
  for (const [name, { dtype, shape, data }] of tensors) hash.update(JSON.stringify([name, dtype, shape])).update(data);
  writeSafetensors(to, tensors, { ...metadata, sha256: hash.digest("hex") });
  return to;
}
