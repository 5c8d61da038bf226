/** The identity of a folder's model, computed a second time: by hand, from the bytes of its files, all in this thread. */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { ModelConfig } from "../../lib/model.ts";

const sha256 = (bytes: Uint8Array | string) => new Bun.CryptoHasher("sha256").update(bytes).digest();

/** Keys in ascending order, as Python's `json.dumps(…, sort_keys=True, separators=(",", ":"))` writes them. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const keys = Object.keys(value).filter((key) => (value as Record<string, unknown>)[key] !== undefined).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical((value as Record<string, unknown>)[key])}`).join(",")}}`;
}

/**
 * The identity as the documentation defines it, of a folder's model without the tensors in `leftOut`.
 *
 * @param settings further members of the configuration.
 */
export function identityByHand(folder: string, config: ModelConfig, leftOut: readonly string[] = [], settings: object = {}): string {
  const tensors: [string, string, number[], string][] = [];
  for (const file of readdirSync(folder).filter((name) => /^model.*\.safetensors$/.test(name))) {
    const bytes = readFileSync(join(folder, file));
    const start = 8 + Number(bytes.readBigUInt64LE(0));
    const header = JSON.parse(bytes.toString("utf8", 8, start)) as Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;
    for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header)) {
      if (name === "__metadata__" || leftOut.includes(name)) continue;
      const [from, to] = offsets;
      const data = bytes.subarray(start + from, start + to);
      const chunks: Uint8Array[] = [];
      for (let at = 0; at < data.length; at += 1048576) chunks.push(sha256(data.subarray(at, at + 1048576)));
      tensors.push([name, dtype, shape, sha256(Buffer.concat(chunks)).toString("hex")]);
    }
  }
  tensors.sort(([a], [b]) => (a < b ? -1 : 1));
  const { eosTokens: _, family, attention: { gated, norm, ...attention }, ...rest } = config;
  const others = { ...(family !== "qwen3_5" && { family }), attention: { ...attention, ...(!gated && { gated }), ...(norm !== "head" && { norm }) } };
  return sha256(canonical(["gated-delta-identity-1", { ...rest, ...others, ...settings }, tensors])).toString("hex");
}
