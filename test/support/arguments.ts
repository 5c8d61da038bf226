/** Small sound arguments of every op, for tests that break them one at a time. */
import * as ggml from "../../lib/ggml.ts";
import * as api from "../../lib/index.ts";
import type { Device, Op, Pass, Tensor } from "../../lib/index.ts";

/** The ops by name. */
export type OpName =
  | "gatedDelta"
  | "causalConv1d"
  | "gatedRmsNorm"
  | "rmsNorm"
  | "gatedDeltaStep"
  | "linear"
  | "add"
  | "attention"
  | "embedding"
  | "siluMul"
  | "route"
  | "expertLinear"
  | "combineExperts"
  | "topK"
  | "copySlots"
  | "commitGatedDelta"
  | "commitCausalConv1d"
  | "gatedDeltaNetInplace"
  | "gatedDeltaNetInplaceIds"
  | "ssmConvUpdateInplace"
  | "ssmConvUpdateInplaceIds";

/** Arguments of any op, which tests change. */
export type Arguments = Record<string, unknown>;

const [tokens, keyHeads, valueHeads, keyDim, valueDim, slots, width] = [5, 1, 2, 8, 16, 3, 4] as const;
const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;

/** Shared by the two forms of ggml's recurrence: two sequences of three tokens. */
const net = (device: Device): Arguments => ({
  q: device.tensor("f32", [2, 3, keyHeads, keyDim]),
  k: device.tensor("f32", [2, 3, keyHeads, keyDim]),
  v: device.tensor("f32", [2, 3, valueHeads, keyDim]),
  gate: device.tensor("f32", [2, 3, valueHeads]),
  beta: device.tensor("f32", [2, 3, valueHeads]),
  snapshots: device.tensor("f32", [2, 2, valueHeads, keyDim, keyDim]),
  out: device.tensor("f32", [2, 3, valueHeads, keyDim]),
});
const update = (device: Device): Arguments => ({
  weight: device.tensor("f32", [channels, width]),
  x: device.tensor("f32", [2, channels]),
  silu: true,
  out: device.tensor("f32", [2, channels]),
});

/** Fresh arguments of each op. Every tensor has its own memory. */
export const soundArguments: { readonly [Name in OpName]: (device: Device) => Arguments } = {
  gatedDelta: (device) => ({
    query: device.tensor("f32", [tokens, keyHeads, keyDim]),
    key: device.tensor("f32", [tokens, keyHeads, keyDim]),
    value: device.tensor("f32", [tokens, valueHeads, valueDim]),
    gate: device.tensor("f32", [tokens, valueHeads]),
    beta: device.tensor("f32", [tokens, valueHeads]),
    aLog: device.tensor("f32", [valueHeads]),
    dtBias: device.tensor("f32", [valueHeads]),
    state: device.tensor("f32", [slots, valueHeads, valueDim, keyDim]),
    out: device.tensor("f32", [tokens, valueHeads, valueDim]),
    gateForm: "raw",
    cuSeqlens: [0, 2, 5],
    readSlots: [0, 1],
    writeSlots: [0, 1],
  }),
  causalConv1d: (device) => ({
    x: device.tensor("f32", [tokens, channels]),
    weight: device.tensor("f32", [channels, width]),
    bias: device.tensor("f32", [channels]),
    state: device.tensor("f32", [slots, channels, width - 1]),
    out: device.tensor("f32", [tokens, channels]),
    cuSeqlens: [0, 2, 5],
    readSlots: [0, 1],
    writeSlots: [0, 1],
  }),
  gatedRmsNorm: (device) => ({
    x: device.tensor("f32", [tokens, valueHeads, valueDim]),
    z: device.tensor("f32", [tokens, valueHeads, valueDim]),
    weight: device.tensor("f32", [valueDim]),
    out: device.tensor("f32", [tokens, valueHeads, valueDim]),
  }),
  rmsNorm: (device) => ({
    x: device.tensor("f32", [tokens, valueHeads, valueDim]),
    weight: device.tensor("f32", [valueDim]),
    out: device.tensor("f32", [tokens, valueHeads, valueDim]),
  }),
  gatedDeltaStep: (device) => ({
    x: device.tensor("f32", [2, channels]),
    keyHeads,
    convWeight: device.tensor("f32", [channels, width]),
    convBias: device.tensor("f32", [channels]),
    convState: device.tensor("f32", [slots, channels, width - 1]),
    gate: device.tensor("f32", [2, valueHeads]),
    beta: device.tensor("f32", [2, valueHeads]),
    aLog: device.tensor("f32", [valueHeads]),
    dtBias: device.tensor("f32", [valueHeads]),
    state: device.tensor("f32", [slots, valueHeads, valueDim, keyDim]),
    z: device.tensor("f32", [2, valueHeads, valueDim]),
    normWeight: device.tensor("f32", [valueDim]),
    out: device.tensor("f32", [2, valueHeads, valueDim]),
    gateForm: "raw",
    readSlots: [0, 1],
    writeSlots: [0, 1],
  }),
  linear: (device) => ({
    x: device.tensor("f32", [tokens, 8]),
    weight: device.tensor("f32", [16, 8]),
    out: device.tensor("f32", [tokens, 16]),
  }),
  add: (device) => ({
    a: device.tensor("f32", [tokens, valueHeads, valueDim]),
    b: device.tensor("f32", [tokens, valueHeads, valueDim]),
    out: device.tensor("f32", [tokens, valueHeads, valueDim]),
  }),
  attention: (device) => ({
    query: device.tensor("f32", [tokens, valueHeads, valueDim]),
    key: device.tensor("f32", [tokens, keyHeads, valueDim]),
    value: device.tensor("f32", [tokens, keyHeads, valueDim]),
    gate: device.tensor("f32", [tokens, valueHeads, valueDim]),
    queryNorm: device.tensor("f32", [valueDim]),
    keyNorm: device.tensor("f32", [valueDim]),
    keyPages: device.tensor("f32", [slots + 1, keyHeads, 4, valueDim]),
    valuePages: device.tensor("f32", [slots + 1, keyHeads, 4, valueDim]),
    out: device.tensor("f32", [tokens, valueHeads, valueDim]),
    rotaryDim: 8,
    cuSeqlens: [0, 2, 5],
    pageTable: [0, -1, 3, 1],
    pastTokens: [1, 5],
    positions: [1, 2, 5, 6, 7],
  }),
  embedding: (device) => ({
    weight: device.tensor("f32", [16, 8]),
    out: device.tensor("f32", [tokens, 8]),
    ids: [3, 0, 15, 3, 1],
  }),
  siluMul: (device) => ({
    gate: device.tensor("f32", [tokens, valueHeads, valueDim]),
    up: device.tensor("f32", [tokens, valueHeads, valueDim]),
    out: device.tensor("f32", [tokens, valueHeads, valueDim]),
  }),
  route: (device) => ({
    logits: device.tensor("f32", [tokens, 4]),
    ids: device.tensor("id32", [tokens, 2]),
    weights: device.tensor("f32", [tokens, 2]),
    normalize: true,
  }),
  expertLinear: (device) => ({
    x: device.tensor("f32", [tokens, 8]),
    weight: device.tensor("f32", [4, 16, 8]),
    ids: device.tensor("id32", [tokens, 2]),
    out: device.tensor("f32", [tokens, 2, 16]),
  }),
  combineExperts: (device) => ({
    experts: device.tensor("f32", [tokens, 2, 16]),
    weights: device.tensor("f32", [tokens, 2]),
    shared: device.tensor("f32", [tokens, 16]),
    sharedGate: device.tensor("f32", [tokens, 1]),
    residual: device.tensor("f32", [tokens, 16]),
    out: device.tensor("f32", [tokens, 16]),
  }),
  topK: (device) => ({
    x: device.tensor("f32", [tokens, 16]),
    values: device.tensor("f32", [tokens, 2]),
    ids: device.tensor("id32", [tokens, 2]),
  }),
  copySlots: (device) => ({
    pool: device.tensor("f32", [slots, 4, 2]),
    readSlots: [0, -1],
    writeSlots: [1, 2],
  }),
  commitGatedDelta: (device) => ({
    records: {
      key: device.tensor("f32", [tokens, keyHeads, keyDim]),
      delta: device.tensor("f32", [tokens, valueHeads, valueDim]),
      decay: device.tensor("f32", [tokens, valueHeads]),
    },
    state: device.tensor("f32", [slots, valueHeads, valueDim, keyDim]),
    counts: [1, 3],
    cuSeqlens: [0, 2, 5],
    readSlots: [0, 1],
    writeSlots: [0, 1],
  }),
  commitCausalConv1d: (device) => ({
    x: device.tensor("f32", [tokens, channels]),
    state: device.tensor("f32", [slots, channels, width - 1]),
    counts: [1, 3],
    cuSeqlens: [0, 2, 5],
    readSlots: [0, 1],
    writeSlots: [0, 1],
  }),
  gatedDeltaNetInplace: (device) => ({
    ...net(device),
    state: device.tensor("f32", [2, valueHeads, keyDim, keyDim]),
    stateDst: device.tensor("f32", [2, valueHeads, keyDim, keyDim]),
  }),
  gatedDeltaNetInplaceIds: (device) => ({
    ...net(device),
    cache: device.tensor("f32", [slots, valueHeads, keyDim, keyDim]),
    ids: [1, 0],
    rsHead: 1,
  }),
  ssmConvUpdateInplace: (device) => ({
    ...update(device),
    convStates: device.tensor("f32", [2, channels, width - 1]),
    convStateDst: device.tensor("f32", [2, channels, width - 1]),
  }),
  ssmConvUpdateInplaceIds: (device) => ({
    ...update(device),
    convCache: device.tensor("f32", [slots, channels, width - 1]),
    ids: [1, 0],
    rsHead: 1,
  }),
};

/** Every op's name. */
export const opNames = Object.keys(soundArguments) as OpName[];

/** An op with any arguments. */
export function makeOp(name: OpName, args: unknown): Op {
  return ({ ...api, ...ggml }[name] as (args: unknown) => Op)(args);
}

/** Adds an op with any arguments to a pass. */
export function addOp(pass: Pass, name: OpName, args: unknown): void {
  (pass[name] as (args: unknown) => void).call(pass, args);
}

/** The tensors among an op's arguments. */
export function tensorsOf(args: Arguments): [string, Tensor][] {
  return Object.entries(args).filter((entry): entry is [string, Tensor] => entry[1] instanceof api.Tensor);
}
