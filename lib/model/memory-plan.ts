/** Plans a model's memory for states, keys and values: by the caller's options, otherwise as a share of the free memory. */
import { totalmem } from "node:os";
import { GatedDeltaError } from "../errors.ts";
import { convChannels, valueChannels } from "../checkpoint/mixer-config.ts";
import type { WeightBytes } from "../checkpoint/tensor-loader.ts";
import { dtypes } from "../tensor/dtype.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { largestBytes } from "../tensor/shape.ts";
import type { ModelConfig } from "./model-config.ts";
import type { LoadModelOptions } from "./model-options.ts";

/** States and pages of a model. */
export interface MemoryPlan {
  readonly states: { readonly slots: number; readonly dtype: FloatDType; readonly bytes: number };
  readonly pages: { readonly count: number; readonly tokens: number; readonly dtype: FloatDType; readonly bytes: number };
}

/** The parts of a configuration that the plan depends on. */
type PlannedConfig = Pick<ModelConfig, "layers" | "mixer" | "attention" | "maxPositions">;

/** Default tokens of a page. */
const defaultPageTokens = 64;
/** Default number of sessions that work at the same time. */
const defaultSessions = 4;
/** The most tokens of a session by default. */
const mostContext = 32768;
/** The fewest tokens of a session by default; if memory is too small for that many, there are fewer sessions. */
const fewestContext = 2048;
/** For each working session a second state, for a cache or a fork. */
const statesOfSession = 2;
/** The share of the free memory to take by default. */
const share = 1 / 2;

/** Bytes of memory that this process can still allocate. */
export function freeMemory(): number {
  return process.availableMemory();
}

/**
 * Bytes that states, keys and values can share. Mapped weights count as used: the system frees their memory if other memory is
 * needed, but then reads them again for each token.
 */
export function freeBeside({ mapped }: Pick<WeightBytes, "mapped">): number {
  return Math.max(0, freeMemory() - mapped);
}

/**
 * Refuses a model that is larger than the memory before it is read. Mapped weights need no memory of the process.
 *
 * @param most bytes of the memory.
 * @throws {GatedDeltaError} of code `out-of-memory`, with both numbers; it names the largest part.
 */
export function expectFits(op: string, config: PlannedConfig, options: LoadModelOptions, { copied, mapped }: WeightBytes, most: number = mostMemory()): void {
  const { states, pages } = planMemory(op, config, options, Math.max(0, most - copied - mapped));
  const [stateBytes, pageBytes] = [states.slots * states.bytes, pages.count * pages.bytes];
  const needed = copied + stateBytes + pageBytes;
  if (needed <= most) return;
  const parts = [`weights ${copied}`, ...(mapped > 0 ? [`and ${mapped} mapped, which need none`] : []), `states ${stateBytes}`, `keys and values ${pageBytes}`];
  const argument = copied >= Math.max(stateBytes, pageBytes) ? "folder" : stateBytes >= pageBytes ? "states" : "pages";
  throw new GatedDeltaError("out-of-memory", { op, argument, expected: `memory for ${needed} bytes (${parts.join(", ")})`, received: `${most} bytes` });
}

/** The most memory that this process can hope for. Systems other than Linux count memory as used that they would free. */
function mostMemory(): number {
  return process.platform === "linux" ? freeMemory() : totalmem();
}

/**
 * Plans a model's states and pages.
 *
 * @param free bytes of free memory once the weights are loaded.
 * @throws {GatedDeltaError} if two options set the same value.
 */
export function planMemory(op: string, config: PlannedConfig, options: LoadModelOptions, free: number): MemoryPlan {
  const { states = {}, pages = {}, dtype = "f32" } = options;
  const { slots: givenSlots, dtype: stateDtype = "f32" } = typeof states === "number" ? { slots: states } : states;
  const { count: givenCount, tokens = defaultPageTokens, dtype: pageDtype = dtype } = typeof pages === "number" ? { count: pages } : pages;
  if (givenSlots !== undefined) expectAlone(op, "sessions", options.sessions, "states");
  if (givenCount !== undefined) expectAlone(op, "context", options.context, "pages");
  const stateBytes = bytesOfState(config, stateDtype, dtype);
  const pageBytes = bytesOfPage(config, tokens, pageDtype);
  const attention = config.layers.includes("attention");
  const givenSessions = options.sessions ?? (givenSlots === undefined ? undefined : Math.max(1, Math.floor(givenSlots / statesOfSession)));
  const pagesOf = (context: number): number => Math.ceil(Math.min(context, config.maxPositions) / tokens);
  const fewest = pagesOf(Math.min(fewestContext, options.context ?? Infinity));

  let sessions = givenSessions ?? defaultSessions;
  const takes = (): number => (givenSlots ?? statesOfSession * sessions) * stateBytes + sessions * fewest * pageBytes;
  if (givenSessions === undefined) while (sessions > 1 && takes() > free * share) sessions--;
  const slots = givenSlots ?? statesOfSession * sessions;

  const left = Math.max(0, free * share - slots * stateBytes);
  const perLayer = largestBytes / (config.attention.kvHeads * tokens * config.attention.headDim * dtypes[pageDtype].bytes);
  const fitting = Math.floor(Math.min(left / Math.max(1, pageBytes), perLayer) / sessions);
  const pagesOfSession = options.context === undefined ? Math.max(fewest, Math.min(pagesOf(mostContext), fitting)) : pagesOf(options.context);
  const count = givenCount ?? (attention ? sessions * pagesOfSession : slots);
  return {
    states: { slots, dtype: stateDtype, bytes: stateBytes },
    pages: { count, tokens, dtype: pageDtype, bytes: pageBytes },
  };
}

function bytesOfState({ layers, mixer }: Pick<ModelConfig, "layers" | "mixer">, state: FloatDType, conv: FloatDType): number {
  const recurrent = valueChannels(mixer) * mixer.keyDim * dtypes[state].bytes;
  const rolling = convChannels(mixer) * (mixer.convWidth - 1) * dtypes[conv].bytes;
  return layers.filter((type) => type === "gatedDelta").length * (recurrent + rolling);
}

function bytesOfPage({ layers, attention: { kvHeads, headDim } }: Pick<ModelConfig, "layers" | "attention">, tokens: number, dtype: FloatDType): number {
  return layers.filter((type) => type === "attention").length * 2 * kvHeads * tokens * headDim * dtypes[dtype].bytes;
}

function expectAlone(op: string, argument: string, value: unknown, other: string): void {
  if (value === undefined) return;
  const message = `\`${argument}\` cannot be combined with \`${other}\`, which sets the same value`;
  throw new GatedDeltaError("invalid-argument", { op, argument, message });
}
