/**
 * Finds a whole model's tensors in a checkpoint and allocates their memory; the loader reads them afterwards. Any other tensor
 * of the checkpoint is refused unless it belongs to another part of a released model.
 */

import type { Device } from "../device/device.ts";
import { UnsupportedError } from "../errors.ts";
import { GatedDeltaNet, ofWeights } from "../layer/gated-delta-net.ts";
import { supportedWeights } from "../checkpoint/quantization.ts";
import type { Matrix, MatrixUse } from "../checkpoint/matrix.ts";
import { placeIn } from "../checkpoint/source.ts";
import type { TensorLoader } from "../checkpoint/tensor-loader.ts";
import { planWeights } from "../layer/weights.ts";
import type { TensorSource } from "../checkpoint/safetensors.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Family, ParsedConfig } from "./families/family.ts";
import type { ModelLayer, ModelWeights } from "./model-weights.ts";
import { findModel, type ModelNames } from "./tensor-names.ts";

/** Bytes to read at a time when two tensors are compared. */
const pieceBytes = 4 << 20;

/** A model whose tensors have memory. */
export interface PlannedModel {
  /** Disposing it frees everything. */
  readonly weights: ModelWeights;
  /** The dtype of the activations. */
  readonly dtype: FloatDType;
  readonly tied: boolean;
  /** How rows are multiplied by each of the model's matrices. */
  readonly matrices: readonly MatrixUse[];
  readonly skipped: readonly string[];
}

/**
 * Plans a model, layer by layer.
 *
 * @param given dtype of the activations; undefined for the default.
 * @param pause awaited between layers, so that other work can continue.
 * @throws {FileError}, {@link DTypeError} and {@link UnsupportedError} for tensors that do not fit; nothing stays allocated then.
 */
export async function planModel(
  device: Device,
  loader: TensorLoader,
  family: Family,
  config: ParsedConfig,
  given: FloatDType | undefined,
  pause: () => Promise<void>,
): Promise<PlannedModel> {
  const { source, op } = loader;
  const names = findModel(source, op);
  const { hiddenSize: hidden, vocabSize } = config;
  using made = new Owned(loader);
  const normForm = await family.normForm(loader, names.root, config, pause);
  const embedding = loader.matrix(`${names.root}embed_tokens`, vocabSize, hidden);
  const dtype = given ?? defaultDtype(device, embedding);
  const tied = await isTied(loader, names, config, pause);
  const output = tied ? embedding : loader.matrix(names.output, vocabSize, hidden);
  const norm = loader.tensor(`${names.root}norm.weight`, [hidden]);
  made.keep();
  const layers: ModelLayer[] = [];
  let mixers = 0;
  for (const [layer, type] of config.layers.entries()) {
    const prefix = `${names.root}layers.${layer}.`;
    const weights = family.layer(loader, prefix, config, type, layer);
    made.keep();
    let mixer: GatedDeltaNet | undefined;
    if (type === "gatedDelta") {
      const ofMixer = planWeights(loader, family.mixerPrefix(source, prefix), config.mixer);
      const loaded = { weights: ofMixer, tensors: loader.taken(), config: config.mixer };
      mixer = made.mixer(GatedDeltaNet[ofWeights](device, loaded, { layer, dtype, poolLayer: mixers++ }));
    }
    layers.push({ weights, mixer });
    await pause();
  }
  const skipped = leftOver(loader, family, names, tied);
  // The rows of an embedding that is not the output projection are only looked up.
  const matrices = loader.uses.filter(({ name }) => tied || name !== `${names.root}embed_tokens`);
  const owned = made.move();
  return { matrices, weights: { family, embedding, output, norm, normForm, layers, [Symbol.dispose]: () => owned[Symbol.dispose]() }, dtype, tied, skipped };
}

/** The default dtype: on a GPU, 16-bit activations if the weights have no more bits or are packed. */
function defaultDtype({ backend }: Device, { weightFormat }: Matrix): FloatDType {
  return backend === "metal" && weightFormat !== "f32" && weightFormat !== "f16" ? "bf16" : "f32";
}

/** The tensors and mixers of a model, freed together. */
class Owned implements Disposable {
  readonly #loader: TensorLoader;
  #tensors: Tensor[] = [];
  #mixers: GatedDeltaNet[] = [];

  constructor(loader: TensorLoader) {
    this.#loader = loader;
  }

  /** Takes the tensors that the loader has made since the last call. */
  keep(): void {
    this.#tensors.push(...this.#loader.taken());
  }

  mixer(mixer: GatedDeltaNet): GatedDeltaNet {
    this.#mixers.push(mixer);
    return mixer;
  }

  /** Moves everything to another owner. */
  move(): Owned {
    const other = new Owned(this.#loader);
    [other.#tensors, this.#tensors] = [this.#tensors, []];
    [other.#mixers, this.#mixers] = [this.#mixers, []];
    return other;
  }

  [Symbol.dispose](): void {
    for (const one of [...this.#mixers.splice(0), ...this.#tensors.splice(0)]) one[Symbol.dispose]();
  }
}

/**
 * Whether the embedding is also the output projection. If the configuration's two settings contradict each other, the existence
 * of an output projection decides; if the configuration only says yes, an existing projection is used unless it is a copy of the
 * embedding (transformers, `PreTrainedModel.tie_weights`).
 */
async function isTied({ source }: TensorLoader, { root, output }: ModelNames, { tied }: ParsedConfig, pause: () => Promise<void>): Promise<boolean> {
  if (!tied.includes(true)) return false;
  const names = source.namesWithPrefix(`${output}.`);
  if (names.length === 0) return true;
  if (tied.includes(false)) return false;
  for (const name of names) {
    const table = `${root}embed_tokens${name.slice(output.length)}`;
    if (!(await equal(source, name, table, pause))) return false;
  }
  return true;
}

/** Whether two tensors have the same dtype, shape and bytes. */
async function equal(source: TensorSource, name: string, other: string, pause: () => Promise<void>): Promise<boolean> {
  if (!source.has(other)) return false;
  const [one, two] = [source.info(name), source.info(other)];
  if (one.dtype !== two.dtype || one.shape.join() !== two.shape.join()) return false;
  const pieces = [new Uint8Array(Math.min(pieceBytes, one.bytes)), new Uint8Array(Math.min(pieceBytes, one.bytes))] as const;
  for (let from = 0; from < one.bytes; from += pieceBytes) {
    const [a, b] = pieces.map((piece) => piece.subarray(0, one.bytes - from)) as [Uint8Array, Uint8Array];
    await source.readSliceAsync(name, from, a);
    await source.readSliceAsync(other, from, b);
    if (Buffer.compare(a, b) !== 0) return false;
    await pause();
  }
  return true;
}

/** The tensors of other parts; any other unused tensor is refused. */
function leftOver(loader: TensorLoader, family: Family, { output }: ModelNames, tied: boolean): string[] {
  const { source, op } = loader;
  const skipped: string[] = [];
  for (const name of source.names) {
    if (loader.wants(name)) continue;
    // Some tied models have a copy of the embedding.
    if (family.elsewhere.test(name) || (tied && name.startsWith(`${output}.`))) skipped.push(name);
    else {
      throw new UnsupportedError({
        op,
        argument: placeIn(source, name),
        expected: `the tensors of ${family.title}, with ${supportedWeights}`,
        received: "an unexpected tensor",
      });
    }
  }
  return skipped;
}
