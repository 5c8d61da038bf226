/**
 * The golden files as the float64 reference takes them, read by the modules of `npm run verify`: rows are tokens of
 * sequences one after the other, pools have the value dimension before the key dimension, and the convolution's channels
 * are last. test/golden/README.md has the files' layouts.
 */
import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { readCausalConv } from "../verify/causal-conv-files.ts";
import { readFusedConv } from "../verify/fused-conv-files.ts";
import { readFusedGdn } from "../verify/fused-gdn-files.ts";
import { readGatedDelta } from "../verify/gated-delta-files.ts";
import { readGatedRmsNorm } from "../verify/gated-rmsnorm-files.ts";
import { OpFile, numbersOf, transposed } from "../verify/op-file.ts";
import type { OpTensor } from "../verify/op-file.ts";
import { readLayerInputs } from "../../lib/cli/verify/layer-files.ts";
import { openSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { Format } from "../reference/rounding.ts";
import { reference } from "../reference/tensor.ts";
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

/** The members of every case. */
interface Golden {
  /** The file's name without its ending. */
  readonly name: string;
  /** Sequences and tokens of each. */
  readonly sequences: number;
  readonly tokens: number;
  /** `[0, T, 2T, …]` */
  readonly cuSeqlens: number[];
}

/** A tensor with its own shape or another. */
function exact(tensor: OpTensor, shape = tensor.shape): Reference {
  return reference(shape, numbersOf(tensor));
}

function nameOf(path: string): string {
  return basename(path, ".safetensors");
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
  /** The results of transformers' own float32 paths. */
  readonly outRecurrentF32: Reference;
  readonly outChunkF32: Reference;
  readonly stateChunkF32: Reference;
  readonly qkNorm: "l2" | "none";
}

/** A `gated-delta-` file. */
export function loadGatedDelta(path: string): GatedDeltaGolden {
  using file = new OpFile(path);
  const data = readGatedDelta(file);
  const { sequences, tokens, keyHeads, valueHeads, keyDim, valueDim } = data;
  const rows = sequences * tokens;
  const poolShape = [sequences, valueHeads, valueDim, keyDim];
  const outShape = [rows, valueHeads, valueDim];
  const outDims = ["B", "T", "Hv", "Dv"];
  const stateChunk = file.reference("state_chunk_f32", ["B", "Hv", "Dk", "Dv"]);
  return {
    name: nameOf(path),
    sequences,
    tokens,
    cuSeqlens: [...data.cuSeqlens],
    query: exact(data.q, [rows, keyHeads, keyDim]),
    key: exact(data.k, [rows, keyHeads, keyDim]),
    value: exact(data.v, outShape),
    gate: reference([rows, valueHeads], data.gate),
    beta: reference([rows, valueHeads], data.beta),
    stateIn: reference(poolShape, data.stateIn),
    stateOut: reference(poolShape, data.state),
    out: reference(outShape, data.output),
    outRecurrentF32: reference(outShape, file.reference("output_recurrent_f32", outDims)),
    outChunkF32: reference(outShape, file.reference("output_chunk_f32", outDims)),
    stateChunkF32: reference(poolShape, transposed(stateChunk, keyDim, valueDim)),
    qkNorm: data.qkNorm,
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
  using file = new OpFile(path);
  const { sequences, tokens, channels, cuSeqlens, dtype, x, y, weight, stateIn, stateOut } = readCausalConv(file);
  const shape = [sequences * tokens, channels];
  return {
    name: nameOf(path),
    sequences,
    tokens,
    cuSeqlens: [...cuSeqlens],
    format: dtype,
    x: exact({ dtype, shape, data: x }),
    weight: exact(weight),
    stateIn: exact(stateIn),
    stateOut: exact(stateOut),
    out: reference(shape, y),
  };
}

export interface GatedRmsNormGolden {
  readonly name: string;
  /** The format of z and the weight. */
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
  using file = new OpFile(path);
  const { y, z, weight, eps, out } = readGatedRmsNorm(file);
  return {
    name: nameOf(path),
    format: z.dtype,
    x: exact(y),
    z: exact(z),
    weight: exact(weight),
    eps,
    out: reference(y.shape, out),
    outHfF32: reference(y.shape, file.reference("out_hf_f32", ["rows", "n"])),
  };
}

export interface LayerGolden extends Golden {
  readonly path: string;
  readonly format: Format;
  /** The configuration in the file's metadata, under Hugging Face's keys. */
  readonly config: Readonly<Record<string, number>>;
  readonly prefillTokens: number;
  readonly decodeSteps: number;
  /** `[tokens, hidden]` */
  readonly hidden: Reference;
  readonly out: Reference;
  /** By the name after `linear_attn.` */
  readonly weights: ReadonlyMap<string, Reference>;
}

/** A `layer-` file. */
export function loadLayer(path: string): LayerGolden {
  using golden = new OpFile(path);
  const { sequences, tokens, cuSeqlens, hidden, prefill, input, output } = readLayerInputs(golden);
  using file = openSafetensors(path);
  const prefix = "model.layers.0.linear_attn.";
  const weight = (name: string) => reference(file.info(name).shape, file.floats(name));
  const shape = [sequences * tokens, hidden];
  return {
    name: nameOf(path),
    path,
    sequences,
    tokens,
    cuSeqlens: [...cuSeqlens],
    format: golden.tensor("hidden_states", ["B", "T", "hidden"]).dtype,
    config: JSON.parse(file.metadata.get("config") ?? "{}") as Record<string, number>,
    prefillTokens: prefill,
    decodeSteps: tokens - prefill,
    hidden: reference(shape, input),
    out: reference(shape, output),
    weights: new Map(file.namesWithPrefix(prefix).map((name) => [name.slice(prefix.length), weight(name)])),
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
  using file = new OpFile(path);
  const data = readFusedGdn(file);
  const { sequences, tokens, keyHeads, valueHeads, dim, slots } = data;
  const perHead = [sequences, tokens, valueHeads];
  const stateShape = [valueHeads, dim, dim];
  const snapshots = (numbers: ArrayLike<number> | undefined) => {
    return numbers && reference([numbers.length / (sequences * valueHeads * dim * dim), sequences, ...stateShape], numbers);
  };
  return {
    name: nameOf(path),
    q: reference([sequences, tokens, keyHeads, dim], data.q),
    k: reference([sequences, tokens, keyHeads, dim], data.k),
    v: reference([...perHead, dim], data.v),
    gate: reference(data.kda ? [...perHead, dim] : perHead, data.gate),
    beta: reference(perHead, data.beta),
    cacheBefore: reference([slots, ...stateShape], data.before),
    cacheAfter: reference([slots, ...stateShape], data.after),
    out: reference([...perHead, dim], data.output),
    ids: data.ids && [...data.ids],
    rsHead: data.rsHead,
    snapshotsBefore: snapshots(data.snapshotsBefore),
    snapshots: snapshots(data.snapshots),
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
  using file = new OpFile(path);
  const data = readFusedConv(file);
  const { sequences, channels, width, cells } = data;
  const cacheShape = [cells, channels, width - 1];
  return {
    name: nameOf(path),
    x: reference([sequences, channels], data.x),
    weight: reference([channels, width], data.weight),
    cacheBefore: reference(cacheShape, data.before),
    cacheAfter: reference(cacheShape, data.after),
    out: reference([sequences, channels], data.y),
    ids: data.ids && [...data.ids],
    rsHead: data.rsHead,
    silu: data.silu,
  };
}
