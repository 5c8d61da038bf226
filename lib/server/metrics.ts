/** The figures of `GET /metrics`, in Prometheus' text form, from the package prom-client, which is loaded when a request has ended. */
import type * as Prometheus from "prom-client";
import { optionalPackage } from "../native/optional-package.ts";
import { UnsupportedError } from "../errors.ts";
import { apiOf } from "./apis.ts";
import { metersOf } from "./meters.ts";
import type { Meters, Metered } from "./meters.ts";
import { Problem } from "./problem.ts";
import type { RequestLog } from "./server-options.ts";

/** The most requests that are kept while the package is loaded. */
const mostEarly = 10_000;

/** Paths that are counted separately. Clients choose the others. */
const routes: ReadonlySet<string> = new Set([...apiOf.keys(), "/v1/models", "/health", "/metrics"]);

export class Metrics {
  readonly #of: Metered;
  #early: RequestLog[] = [];
  #loading: Promise<Meters> | undefined;
  #meters: Meters | undefined;
  /** Whether the package is missing. */
  #missing = false;

  constructor(of: Metered) {
    this.#of = of;
  }

  /** Counts a request. */
  ended(entry: RequestLog): void {
    if (this.#meters !== undefined) return this.#count(this.#meters, entry);
    if (this.#missing) return;
    if (this.#early.length < mostEarly) this.#early.push(entry);
    this.#load().catch(() => {});
  }

  /**
   * The page of all figures.
   *
   * @throws {Problem} without the package.
   */
  async page(): Promise<{ readonly type: string; readonly text: string }> {
    let meters: Meters;
    try {
      meters = await this.#load();
    } catch (cause) {
      if (!(cause instanceof UnsupportedError)) throw cause;
      throw new Problem("not-installed", `metrics need ${cause.expected}`, { cause });
    }
    const { registry } = meters;
    return { type: registry.contentType, text: await registry.metrics() };
  }

  #load(): Promise<Meters> {
    this.#loading ??= this.#loaded().catch((error: unknown) => {
      // The package may be installed before the next request for the page.
      this.#loading = undefined;
      this.#missing = true;
      this.#early = [];
      throw error;
    });
    return this.#loading;
  }

  async #loaded(): Promise<Meters> {
    const module = (await import(optionalPackage("metrics", "prom-client"))) as { readonly default: typeof Prometheus };
    const meters = metersOf(module.default, this.#of);
    this.#meters = meters;
    for (const entry of this.#early) this.#count(meters, entry);
    this.#early = [];
    return meters;
  }

  #count(meters: Meters, { path, status, milliseconds, firstMilliseconds, promptTokens = 0, cachedTokens = 0, answerTokens = 0 }: RequestLog): void {
    const route = path.startsWith("/v1/models/") ? "/v1/models" : routes.has(path) ? path : "other";
    meters.seconds.observe({ route, status: `${status}` }, milliseconds / 1000);
    if (firstMilliseconds !== undefined) meters.firstToken.observe(firstMilliseconds / 1000);
    meters.promptTokens.inc(promptTokens);
    meters.cachedTokens.inc(cachedTokens);
    meters.generatedTokens.inc(answerTokens);
  }
}
