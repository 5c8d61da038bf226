/**
 * The golden files in the library's own layouts: rows are tokens of sequences one after the other, pools have the
 * value dimension before the key dimension, and the convolution's channels are last. test/golden/README.md has the
 * files' layouts.
 */
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { openSafetensors } from "../../lib/safetensors/safetensors.ts";
import type { SafetensorsDType, SafetensorsFile } from "../../lib/safetensors/safetensors.ts";
import type { Format } from "../reference/rounding.ts";
import { permute, reference, reshape } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";

/** The kinds of file, as their names begin. */
export type GoldenKind = "gated-delta" | "causal-conv" | "gated-rmsnorm" | "layer" | "fused-gdn" | "fused-conv";

const folder = join(import.meta.dir, "..", "golden");

/** The paths of all files of a kind. */
export function goldenFiles(kind: GoldenKind): string[] {
  const files = readdirSync(folder).filter((name) => name.startsWith(`${kind}-`) && name.endsWith(".safetensors"));
  if (files.length === 0) throw new Error(`no golden file of kind ${kind}`);
  return files.sort().map((name) => join(folder, name));
}

/** What every case has. */
interface Golden {
  /** The file's name without its ending. */
  readonly name: string;
  /** Sequences and tokens of each. */
  readonly sequences: number;
  readonly tokens: number;
  /** `[0, T, 2T, …]` */
  readonly cuSeqlens: number[];
}

/** One tensor of a file, exact, and the format it was stored in. */
export function tensorOf(file: SafetensorsFile, name: string): Reference {
  return reference(file.info(name).shape, file.floats(name));
}

/** A tensor's stored format, where it is one that the library computes with. */
export function formatOf(file: SafetensorsFile, name: string): Format {
  const formats: Partial<Record<SafetensorsDType, Format>> = { F32: "f32", F16: "f16", BF16: "bf16" };
  const format = formats[file.info(name).dtype];
  if (format === undefined) throw new Error(`${file.path}: ${name} is ${file.info(name).dtype}`);
  return format;
}

function nameOf(path: string): string {
  return basename(path, ".safetensors");
}

function ragged(sequences: number, tokens: number): Pick<Golden, "sequences" | "tokens" | "cuSeqlens"> {
  return { sequences, tokens, cuSeqlens: Array.from({ length: sequences + 1 }, (_, s) => s * tokens) };
}

/** `[B, T, …]` as rows `[B T, …]`. */
function flat(tensor: Reference): Reference {
  const [b, t, ...rest] = tensor.shape;
  return reshape(tensor, [b! * t!, ...rest]);
}

export interface GatedDeltaGolden extends Golden {
  readonly query: Reference;
  readonly key: Reference;
  readonly value: Reference;
  /** Log decay. */
  readonly gate: Reference;
  readonly beta: Reference;
  /** `[B, Hv, Dv, Dk]` */
  readonly stateIn: Reference;
  readonly stateOut: Reference;
  readonly out: Reference;
  /** What transformers' own float32 paths give. */
  readonly outRecurrentF32: Reference;
  readonly outChunkF32: Reference;
  readonly stateChunkF32: Reference;
  readonly qkNorm: "l2" | "none";
}

/** A `gated-delta-` file. */
export function loadGatedDelta(path: string): GatedDeltaGolden {
  using file = openSafetensors(path);
  const rows = (name: string) => flat(tensorOf(file, name));
  const pool = (name: string) => permute(tensorOf(file, name), [0, 1, 3, 2]);
  const [b, t] = file.info("q").shape;
  return {
    name: nameOf(path),
    ...ragged(b!, t!),
    query: rows("q"),
    key: rows("k"),
    value: rows("v"),
    gate: rows("g"),
    beta: rows("beta"),
    stateIn: pool("state_in"),
    stateOut: pool("state_out_f64"),
    out: rows("output_f64"),
    outRecurrentF32: rows("output_recurrent_f32"),
    outChunkF32: rows("output_chunk_f32"),
    stateChunkF32: pool("state_chunk_f32"),
    qkNorm: file.metadata.get("qk_l2norm") === "True" ? "l2" : "none",
  };
}

export interface CausalConvGolden extends Golden {
  readonly format: Format;
  /** `[tokens, C]` */
  readonly x: Reference;
  readonly weight: Reference;
  readonly stateIn: Reference;
  readonly stateOut: Reference;
  readonly out: Reference;
}

/** A `causal-conv-` file. */
export function loadCausalConv(path: string): CausalConvGolden {
  using file = openSafetensors(path);
  const rows = (name: string) => flat(permute(tensorOf(file, name), [0, 2, 1]));
  const [b, , t] = file.info("x").shape;
  return {
    name: nameOf(path),
    ...ragged(b!, t!),
    format: formatOf(file, "x"),
    x: rows("x"),
    weight: tensorOf(file, "weight"),
    stateIn: tensorOf(file, "state_in"),
    stateOut: tensorOf(file, "state_out"),
    out: rows("y_f64"),
  };
}

export interface GatedRmsNormGolden {
  readonly name: string;
  /** z's and the weight's. */
  readonly format: Format;
  readonly x: Reference;
  readonly z: Reference;
  readonly weight: Reference;
  readonly eps: number;
  readonly out: Reference;
  readonly outHfF32: Reference;
}

/** A `gated-rmsnorm-` file. */
export function loadGatedRmsNorm(path: string): GatedRmsNormGolden {
  using file = openSafetensors(path);
  return {
    name: nameOf(path),
    format: formatOf(file, "z"),
    x: tensorOf(file, "y"),
    z: tensorOf(file, "z"),
    weight: tensorOf(file, "weight"),
    eps: Number(file.metadata.get("eps")),
    out: tensorOf(file, "out_f64"),
    outHfF32: tensorOf(file, "out_hf_f32"),
  };
}

export interface LayerGolden extends Golden {
  readonly path: string;
  readonly format: Format;
  /** The file's own words, under Hugging Face's keys. */
  readonly config: Readonly<Record<string, number>>;
  readonly prefillTokens: number;
  readonly decodeSteps: number;
  /** `[tokens, hidden]` */
  readonly hidden: Reference;
  readonly out: Reference;
  /** By the name behind `linear_attn.` */
  readonly weights: ReadonlyMap<string, Reference>;
}

/** A `layer-` file. */
export function loadLayer(path: string): LayerGolden {
  using file = openSafetensors(path);
  const prefix = "model.layers.0.linear_attn.";
  const names = file.names.filter((name) => name.startsWith(prefix));
  const [b, t] = file.info("hidden_states").shape;
  return {
    name: nameOf(path),
    path,
    ...ragged(b!, t!),
    format: formatOf(file, "hidden_states"),
    config: JSON.parse(file.metadata.get("config") ?? "{}") as Record<string, number>,
    prefillTokens: Number(file.metadata.get("prefill_tokens")),
    decodeSteps: Number(file.metadata.get("decode_steps")),
    hidden: flat(tensorOf(file, "hidden_states")),
    out: flat(tensorOf(file, "output_f32")),
    weights: new Map(names.map((name) => [name.slice(prefix.length), tensorOf(file, name)])),
  };
}

export interface FusedGdnGolden {
  readonly name: string;
  readonly q: Reference;
  readonly k: Reference;
  readonly v: Reference;
  readonly gate: Reference;
  readonly beta: Reference;
  readonly cacheBefore: Reference;
  readonly cacheAfter: Reference;
  readonly out: Reference;
  readonly ids: number[] | undefined;
  readonly rsHead: number;
  readonly snapshotsBefore: Reference | undefined;
  readonly snapshots: Reference | undefined;
}

/** A `fused-gdn-` file; its layouts are the ops' own. */
export function loadFusedGdn(path: string): FusedGdnGolden {
  using file = openSafetensors(path);
  const maybe = (name: string) => (file.has(name) ? tensorOf(file, name) : undefined);
  return {
    name: nameOf(path),
    q: tensorOf(file, "q"),
    k: tensorOf(file, "k"),
    v: tensorOf(file, "v"),
    gate: tensorOf(file, "g"),
    beta: tensorOf(file, "beta"),
    cacheBefore: tensorOf(file, "cache_before"),
    cacheAfter: tensorOf(file, "cache_after_f64"),
    out: tensorOf(file, "output_f64"),
    ids: file.has("ids") ? [...file.floats("ids")] : undefined,
    rsHead: Number(file.metadata.get("rs_head")),
    snapshotsBefore: maybe("snapshots_before"),
    snapshots: maybe("snapshots_f64"),
  };
}

export interface FusedConvGolden {
  readonly name: string;
  readonly x: Reference;
  readonly weight: Reference;
  readonly cacheBefore: Reference;
  readonly cacheAfter: Reference;
  readonly out: Reference;
  readonly ids: number[] | undefined;
  readonly rsHead: number;
  readonly silu: boolean;
}

/** A `fused-conv-` file. */
export function loadFusedConv(path: string): FusedConvGolden {
  using file = openSafetensors(path);
  return {
    name: nameOf(path),
    x: tensorOf(file, "x"),
    weight: tensorOf(file, "weight"),
    cacheBefore: tensorOf(file, "cache_before"),
    cacheAfter: tensorOf(file, "cache_after"),
    out: tensorOf(file, "y_f64"),
    ids: file.has("ids") ? [...file.floats("ids")] : undefined,
    rsHead: Number(file.metadata.get("rs_head")),
    silu: file.metadata.get("silu") === "True",
  };
}
