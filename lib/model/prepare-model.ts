/**
 * Compiles a model's kernels on a GPU while its weights are read, so that the first token does not wait for the kernels. The passes
 * that most requests consist of are recorded over the weights' memory and prepared, but not run.
 */
import type { Device } from "../device/device.ts";
import { makeActivations } from "./activations.ts";
import { BestMemory } from "./best-memory.ts";
import { ModelGraph } from "./graph.ts";
import type { KernelProgress, UnreadModel } from "./load-weights.ts";
import { planMemory } from "./memory-plan.ts";
import { makePages, makeStates } from "./model-pools.ts";
import type { ModelConfig } from "./model-config.ts";
import type { CompleteLoadOptions } from "./model-schemas.ts";
import { mostBestOf } from "./sampling/best-logits.ts";

/**
 * Compiles the kernels.
 *
 * @param progress called after the kernels of each pass.
 * @throws as {@link Device.prepare}.
 */
export async function prepareModel(
  op: string,
  device: Device,
  { config, weights }: UnreadModel,
  options: CompleteLoadOptions,
  progress: (kernels: KernelProgress) => void,
): Promise<void> {
  if (device.backend !== "metal") return;
  const { dtype } = options;
  const { states: { dtype: stateDtype }, pages: { tokens: pageTokens, dtype: pageDtype } } = planMemory(op, config, options, Infinity);
  const lengths = lengthsOf(config, options);
  const most = Math.max(...lengths);
  using memory = new DisposableStack();
  const pool = memory.use(makeStates(device, config, { slots: 1, stateDtype, dtype }));
  const pages = memory.use(makePages(op, device, config, { slots: 1, count: Math.ceil(most / pageTokens), tokens: pageTokens, dtype: pageDtype }));
  const graph = new ModelGraph(config, weights, memory.use(makeActivations(device, config, dtype, most)), pages);
  const logits = memory.use(device.tensor("f32", [1, config.vocabSize]));
  const largest = memory.use(new BestMemory(device));
  largest.reserve(1);
  const best = config.vocabSize > mostBestOf ? undefined : largest.rows(0, 1, 1);
  progress({ ready: 0, total: lengths.length });
  for (const [i, tokens] of lengths.entries()) {
    const ops = graph.ops({
      tokens,
      ids: new Int32Array(tokens),
      cuSeqlens: Int32Array.of(0, tokens),
      pageTable: Int32Array.from({ length: Math.ceil(tokens / pages.ledger.pageTokens) }, (_, page) => page),
      pastTokens: Int32Array.of(0),
      step: pool.placeholder(1),
      decode: tokens === 1,
      products: tokens > 1 && options.prompts === "matrix" ? "matrix" : undefined,
      logits: { rows: [tokens - 1], outs: [logits], best: best === undefined ? [] : [{ logits, rows: best }] },
      hidden: { rows: [], outs: [] },
    });
    await device.prepare((pass) => {
      for (const one of ops) pass.encode(one);
    });
    progress({ ready: i + 1, total: lengths.length });
  }
}

/** Numbers of tokens by which kernels are chosen: single tokens first, then few, then with a piece of a prompt, then a prompt alone. */
function lengthsOf({ maxPositions }: ModelConfig, { batchTokens, promptTokens }: CompleteLoadOptions): number[] {
  const most = Math.min(batchTokens, maxPositions);
  return [...new Set([1, 4, promptTokens, batchTokens].map((length) => Math.min(length, most)))];
}
