/** The meters of a server: vLLM's, under the names that routers read, and its own. */
import type * as Prometheus from "prom-client";
import type { LanguageModel } from "../model/language-model.ts";
import { cacheParts } from "../model/session/prefix-cache.ts";
import type { SessionCache } from "../model/session/prefix-cache.ts";
import type { Admission } from "./admission.ts";
import type { StoreFigures } from "./store/store-figures.ts";

/** The objects whose figures are shown. */
export interface Metered {
  readonly model: LanguageModel;
  readonly name: string;
  readonly cache: SessionCache | undefined;
  readonly admission: Admission;
  /** The figures of the store, if there is one. */
  readonly figures: StoreFigures | undefined;
}

/** The meters that count requests; the others read their figures when the page is made. */
export interface Meters {
  readonly registry: Prometheus.Registry;
  readonly seconds: Prometheus.Histogram<"route" | "status">;
  readonly firstToken: Prometheus.Histogram;
  readonly promptTokens: Prometheus.Counter;
  readonly cachedTokens: Prometheus.Counter;
  readonly generatedTokens: Prometheus.Counter;
}

/** Upper bounds of times, in seconds. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800];

/**
 * Makes the meters.
 *
 * @see vLLM, `vllm/v1/metrics/loggers.py`, for the names and meanings of its meters.
 */
export function metersOf({ Registry, Gauge, Counter, Histogram }: typeof Prometheus, { model, name, cache, admission, figures }: Metered): Meters {
  const registry = new Registry();
  registry.setDefaultLabels({ model_name: name });
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({ name, help, registers, collect() { this.set(read()); } });
  };
  const counter = (name: string, help: string, read: () => number): void => {
    new Counter({ name, help, registers, collect() { this.reset(); this.inc(read()); } });
  };
  const counted = (name: string, help: string) => new Counter({ name, help, registers });

  gauge("vllm:num_requests_running", "Requests that are being answered.", () => admission.active - admission.waiting);
  gauge("vllm:num_requests_waiting", "Requests that wait for their turn.", () => admission.waiting);
  gauge("vllm:kv_cache_usage_perc", "Memory for conversations that requests hold, 0 to 1: of pages or of states, the larger share.", () => usage(model, cache));
  const labels = { block_size: `${model.pageTokens}`, num_gpu_blocks: `${model.pages}`, cache_dtype: model.dtype, enable_prefix_caching: cache === undefined ? "False" : "True" };
  new Gauge({ name: "vllm:cache_config_info", help: "The memory for keys and values, in labels.", labelNames: Object.keys(labels), registers }).set(labels, 1);

  gauge("gated_delta_states", "Conversations that there is memory for.", () => model.states);
  gauge("gated_delta_free_states", "Those that neither requests nor the cache hold.", () => model.freeStates);
  gauge("gated_delta_free_pages", "Pages that neither requests nor the cache hold.", () => model.freePages);
  counter("gated_delta_steps_total", "Steps of the model.", () => model.steps);
  if (cache !== undefined) {
    gauge("gated_delta_cache_entries", "Prefixes in the cache.", () => cache.size);
    gauge("gated_delta_cache_bytes", "Bytes of these.", () => cache.bytes);
    counter("gated_delta_cache_hits_total", "Conversations that continued from the cache.", () => cache.hits);
    counter("gated_delta_cache_saved_tokens_total", "Tokens that were not read because of that.", () => cache.tokensSaved);
  }
  if (figures !== undefined) {
    counter("gated_delta_store_restored_total", "Conversations that continued from the store.", () => figures.restored);
    counter("gated_delta_store_restored_tokens_total", "Tokens that were not read because of that.", () => figures.restoredTokens);
    counter("gated_delta_store_read_bytes_total", "Bytes read from the store.", () => figures.bytesRead);
    counter("gated_delta_store_written_bytes_total", "Bytes written to the store.", () => figures.bytesWritten);
    counter("gated_delta_store_written_total", "Prefixes written to the store.", () => figures.written);
    counter("gated_delta_store_skipped_total", "Prefixes that were not written, for want of time or because the cache had lost them.", () => figures.skipped);
    counter("gated_delta_store_refused_total", "Objects that were damaged or signed with another secret.", () => figures.refused);
    counter("gated_delta_store_failures_total", "Calls that the store did not answer, or with an error.", () => figures.failures);
  }
  return {
    registry,
    seconds: new Histogram({ name: "gated_delta_request_seconds", help: "Times of requests, by route and status.", labelNames: ["route", "status"], buckets, registers }),
    firstToken: new Histogram({ name: "gated_delta_first_token_seconds", help: "Times from a request's arrival to its first token.", buckets, registers }),
    promptTokens: counted("gated_delta_prompt_tokens_total", "Tokens of prompts."),
    cachedTokens: counted("gated_delta_cached_prompt_tokens_total", "Tokens of prompts that the cache or the store had."),
    generatedTokens: counted("gated_delta_generated_tokens_total", "Tokens of answers."),
  };
}

/** The share of the model's memory that sessions hold. The cache's memory does not count, since it can be freed. */
function usage({ states, freeStates, pages, freePages }: LanguageModel, cache: SessionCache | undefined): number {
  const held = (cache === undefined ? undefined : cacheParts(cache)?.scheduler.room.held) ?? { states: states - freeStates, pages: pages - freePages };
  return Math.max(held.states / states, pages === 0 ? 0 : held.pages / pages);
}
