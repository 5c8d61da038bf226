/** A model in GGUF files, as a checkpoint in the layout of mlx-lm: names, shapes and configuration. */
import { FileError, UnsupportedError, describe } from "../../errors.ts";
import { FileTensors, OpenFile } from "../file-tensors.ts";
import type { Location, TensorRange } from "../file-tensors.ts";
import type { TensorInfo } from "../header.ts";
import { FormatError } from "../json.ts";
import { PrefixedNames } from "../source.ts";
import { attentionIn, blocksOf, configOf, expectArchitecture } from "./architectures.ts";
import { Cursor } from "./cursor.ts";
import { readGgufHeader } from "./header.ts";
import type { GgufTensor } from "./header.ts";
import { Metadata } from "./metadata.ts";
import { checkpointName, ggmlName } from "./names.ts";
import { expectShard, shardPaths } from "./shards.ts";

interface Entry {
  readonly info: TensorInfo;
  readonly location: Location;
}

/**
 * Opens a GGUF file, or all files of a split model by the name of one of them, and checks their headers.
 *
 * @param caller the call named in errors, including those of later reads. @default this function, then the checkpoint's methods
 * @throws {FileError} if a file is missing, not a regular file, damaged, or its header does not fit its contents;
 *   {@link UnsupportedError} for other architectures, adapters and projectors, and tensors of other types.
 */
export function openGguf(path: string, caller?: string): GgufCheckpoint {
  return new GgufCheckpoint(path, caller);
}

/** An open model; see {@link openGguf}. */
export class GgufCheckpoint extends FileTensors {
  /** The first file. */
  readonly path: string;
  /** The first file's metadata, readable while the file is open. */
  readonly values: Metadata;
  /** `config`: a configuration in JSON, with the keys of transformers. */
  readonly metadata: ReadonlyMap<string, string>;
  readonly #files: OpenFile[] = [];
  readonly #entries = new Map<string, Entry>();
  readonly #names = new PrefixedNames(this.#entries);

  constructor(path: string, caller?: string) {
    super(caller);
    const op = caller ?? "openGguf";
    const paths = shardPaths(path, op);
    this.path = paths[0]!;
    try {
      const opened = paths.map((one, index) => this.#open(one, index, paths.length, op));
      this.values = opened[0]!.metadata;
      const name = expectArchitecture(this.values, this.path, op);
      const blocks = blocksOf(this.values, name, this.path, op);
      const hasAttention = attentionIn(this.values, name, this.path, op);
      for (const { file, tensors } of opened) for (const [own, tensor] of tensors) this.#add(own, checkpointName(own, blocks, hasAttention), tensor, file, op);
      this.#expectCount(op);
      const embedding = this.info("model.embed_tokens.weight").shape;
      if (embedding.length !== 2) throw this.#refuse("token_embd.weight to be a matrix", `${embedding.length} dimensions`, op);
      this.metadata = new Map([["config", JSON.stringify(configOf(this.values, embedding[0]!, !this.has("lm_head.weight"), this.path, op))]]);
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  get names(): readonly string[] {
    return this.#names.all;
  }

  nameInFile(name: string): string {
    return ggmlName(name);
  }

  namesWithPrefix(prefix: string): readonly string[] {
    return this.#names.withPrefix(prefix);
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  info(name: string): TensorInfo {
    return this.#entry(name).info;
  }

  protected locate(name: string): Location {
    return this.#entry(name).location;
  }

  /** Closes the files; names and infos stay readable. Closing twice does nothing. */
  [Symbol.dispose](): void {
    for (const file of this.#files) file[Symbol.dispose]();
  }

  #entry(name: string): Entry {
    const entry = this.#entries.get(name);
    if (entry !== undefined) return entry;
    throw this.#refuse(`a tensor ${describe(ggmlName(name))}`, "a model without it", this.op ?? "read");
  }

  #open(path: string, index: number, count: number, op: string): { file: OpenFile; metadata: Metadata; tensors: ReadonlyMap<string, GgufTensor> } {
    const file: OpenFile = new OpenFile(path, op, () => this.#ranges(file));
    this.#files.push(file);
    const descriptor = file.descriptor(op);
    let metadata: Metadata | undefined;
    try {
      const { tensors } = readGgufHeader(new Cursor(path, descriptor, file.size, op), { path, op }, (values) => {
        metadata = new Metadata(values, path, descriptor, op);
        expectShard(metadata, path, index, count, op);
        if (index === 0) expectArchitecture(metadata, path, op);
      });
      return { file, metadata: metadata!, tensors };
    } catch (cause) {
      if (!(cause instanceof FormatError)) throw cause;
      throw new FileError(path, { op, expected: cause.expected, received: cause.received });
    }
  }

  *#ranges(of: OpenFile): Iterable<TensorRange> {
    for (const [name, { info, location: { file, position } }] of this.#entries) if (file === of) yield [name, { offset: position, bytes: info.bytes }];
  }

  #add(name: string, known: string | undefined, tensor: GgufTensor, file: OpenFile, op: string): void {
    // Under its own name a tensor could pass for one in mlx-lm's layout.
    if (known === undefined) {
      const expected = `only tensors of a model of architecture ${this.values.text("general.architecture")}`;
      throw new UnsupportedError({ op, argument: `${file.path}: ${name}`, expected, received: "a tensor of no known part" });
    }
    // With a dimension of 1 between channels and taps it would have the shape that identifies transformers' norms, which lack the 1.
    if (isConvolution(known) && tensor.sizes.length !== 2) throw this.#refuse(`${name} of 2 dimensions, channels and taps`, `${tensor.sizes.length}: [${tensor.sizes.join(", ")}]`, op);
    if (this.#entries.has(known)) throw this.#refuse("each tensor once", `${describe(name)} twice`, op);
    this.#entries.set(known, { info: infoOf(known, tensor), location: { file, position: tensor.position } });
  }

  #expectCount(op: string): void {
    const count = this.values.integer("split.tensors.count", 0, 2 ** 31 - 1);
    if (count === undefined || count === this.#entries.size) return;
    throw this.#refuse(`${count} tensors in all files, as split.tensors.count says`, `${this.#entries.size}`, op);
  }

  #refuse(expected: string, received: string, op: string): FileError {
    return new FileError(this.path, { op, expected, received });
  }
}

/** A tensor's type and shape as mlx-lm's converter would leave them; blocks as rows of bytes. */
function infoOf(name: string, { type: { stored, elements, bytes: blockBytes }, sizes, bytes, offset }: GgufTensor): TensorInfo {
  const shape = shapeOf(name, sizes);
  if ("dtype" in stored) return { dtype: stored.dtype, shape, bytes, offset };
  const row = ((shape.at(-1) ?? 0) / elements) * blockBytes;
  return { dtype: "U8", weightFormat: stored.weightFormat, shape: [...shape.slice(0, -1), row], bytes, offset };
}

function isConvolution(name: string): boolean {
  return name.endsWith(".linear_attn.conv1d.weight");
}

function shapeOf(name: string, sizes: readonly number[]): readonly number[] {
  // The converter leaves out the dimension of 1 that a convolution by channels and a gate of one row have.
  if (isConvolution(name)) return [...sizes, 1];
  if (sizes.length === 1 && name.endsWith(".mlp.shared_expert_gate.weight")) return [1, ...sizes];
  return sizes;
}
