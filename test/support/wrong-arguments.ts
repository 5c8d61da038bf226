/** How the arguments of each op can be wrong, one at a time. */
import type { DType, Device, ErrorCode, Tensor } from "../../lib/index.ts";
import type { Arguments, OpName } from "./arguments.ts";

/** A change of sound arguments, and what the error must say. */
export type Wrong = readonly [
  change: Arguments | ((sound: Arguments) => Arguments),
  code: ErrorCode,
  argument: string | undefined,
];

/** A strided stand-in for a tensor: every second element of a larger one. */
function gapped(like: unknown): Tensor {
  const { shape, strides, dtype } = like as Tensor;
  const rank = shape.length;
  const wide = (like as Tensor).device.tensor(dtype, [...shape.slice(0, rank - 1), shape[rank - 1]! * 2]);
  return wide.view({ shape, strides: strides.map((stride) => stride * 2) });
}

/** Each change of an op's sound arguments that it must refuse. */
export function wrongArguments(device: Device): { readonly [Name in OpName]: readonly Wrong[] } {
  const tensor = (shape: readonly number[], dtype: DType = "f32") => device.tensor(dtype, shape);
  const overlapping = (parts: (both: Tensor) => Arguments) => parts(tensor([2000]));

  const slotCounts: Wrong[] = [
    [{ readSlots: [0] }, "shape", "readSlots"],
    [{ writeSlots: [0, 1, 2] }, "shape", "writeSlots"],
    [{ readSlots: tensor([3], "i32") }, "shape", "readSlots"],
  ];

  const slots: Wrong[] = [
    [{ readSlots: [0, 3] }, "range", "readSlots[1]"],
    [{ readSlots: [-2, 0] }, "range", "readSlots[0]"],
    [{ writeSlots: [0, 0] }, "overlap", "writeSlots[1]"],
    [{ writeSlots: [0, 2 ** 31 - 1] }, "range", "writeSlots[1]"],
    [{ readSlots: [0, 2 ** 31] }, "range", "readSlots[1]"],
    [{ readSlots: [0, 0.5] }, "invalid-argument", "readSlots[1]"],
    [{ readSlots: [0, NaN] }, "invalid-argument", "readSlots[1]"],
    [{ readSlots: ["0", 1] }, "invalid-argument", "readSlots[0]"],
    [{ readSlots: [, 1] }, "invalid-argument", "readSlots[0]"],
    [{ readSlots: [0n, 1n] }, "invalid-argument", "readSlots[0]"],
    [{ readSlots: "01" }, "invalid-argument", "readSlots"],
    [{ readSlots: null }, "invalid-argument", "readSlots"],
    [{ readSlots: { length: 2, 0: 0, 1: 1 } }, "invalid-argument", "readSlots"],
    [{ readSlots: new Uint32Array([0, 1]) }, "invalid-argument", "readSlots"],
    [{ readSlots: Object.create(Int32Array.prototype) }, "invalid-argument", "readSlots"],
    [{ readSlots: tensor([2]) }, "dtype", "readSlots"],
    [{ readSlots: tensor([1, 2], "i32") }, "shape", "readSlots"],
    [{ writeSlots: tensor([2], "i32") }, "overlap", "writeSlots[1]"],
    [{ readSlots: Int32Array.of(0, 3) }, "range", "readSlots[1]"],
  ];

  const ragged: Wrong[] = [
    ...slotCounts,
    ...slots,
    [{ cuSeqlens: [] }, "shape", "cuSeqlens"],
    [{ cuSeqlens: [0, 5] }, "shape", "readSlots"],
    [{ cuSeqlens: undefined }, "shape", "readSlots"],
    [{ cuSeqlens: [1, 2, 5] }, "range", "cuSeqlens[0]"],
    [{ cuSeqlens: [0, 3, 2] }, "range", "cuSeqlens[2]"],
    [{ cuSeqlens: [0, 2, 6] }, "range", "cuSeqlens[2]"],
    [{ cuSeqlens: [0, -1, 5] }, "range", "cuSeqlens[1]"],
    [{ cuSeqlens: [0, 2.5, 5] }, "invalid-argument", "cuSeqlens[1]"],
    [{ state: undefined }, "range", "readSlots[0]"],
  ];

  const recurrence: Wrong[] = [
    [{ gateForm: undefined }, "invalid-argument", "gateForm"],
    [{ gateForm: "sigmoid" }, "invalid-argument", "gateForm"],
    [{ gateForm: "constructor" }, "invalid-argument", "gateForm"],
    [{ gateForm: 4 }, "invalid-argument", "gateForm"],
    [{ gateForm: "log" }, "invalid-argument", "aLog"],
    [{ gateForm: "log", aLog: undefined }, "invalid-argument", "dtBias"],
    [{ aLog: undefined }, "invalid-argument", "aLog"],
    [{ dtBias: undefined }, "invalid-argument", "dtBias"],
    [{ gateForm: "raw-bounded" }, "invalid-argument", "gateBound"],
    [{ gateForm: "raw-bounded", gateBound: 0 }, "invalid-argument", "gateBound"],
    [{ gateForm: "raw-bounded", gateBound: -Infinity }, "invalid-argument", "gateBound"],
    [{ gateForm: "raw-bounded", gateBound: "-5" }, "invalid-argument", "gateBound"],
    [{ gateBound: -5 }, "invalid-argument", "gateBound"],
    [{ gateDims: "value" }, "invalid-argument", "gateDims"],
    [{ gateDims: "key" }, "shape", "gate"],
    [{ betaForm: "tanh" }, "invalid-argument", "betaForm"],
    [{ heads: "interleaved" }, "invalid-argument", "heads"],
    [{ qkNorm: "layer" }, "invalid-argument", "qkNorm"],
    [{ qkNormEps: -1 }, "invalid-argument", "qkNormEps"],
    [{ qkNormEps: NaN }, "invalid-argument", "qkNormEps"],
    [{ scale: Infinity }, "invalid-argument", "scale"],
    [{ scale: 1e300 }, "invalid-argument", "scale"],
    [{ scale: "1" }, "invalid-argument", "scale"],
    [({ aLog }) => ({ aLog: gapped(aLog) }), "shape", "aLog"],
    [{ aLog: tensor([3]) }, "shape", "aLog"],
    [{ aLog: tensor([2], "i32") }, "dtype", "aLog"],
    [{ dtBias: tensor([2, 8]) }, "shape", "dtBias"],
    [{ dtBias: tensor([2], "i32") }, "dtype", "dtBias"],
    [({ dtBias }) => ({ dtBias: gapped(dtBias) }), "shape", "dtBias"],
    [({ gate }) => ({ gate: gapped(gate) }), "shape", "gate"],
    [({ beta }) => ({ beta: gapped(beta) }), "shape", "beta"],
    [({ gate }) => ({ gate: tensor((gate as Tensor).shape, "bf16") }), "dtype", "gate"],
    [({ beta }) => ({ beta: tensor((beta as Tensor).shape, "f16") }), "dtype", "beta"],
  ];

  return {
    gatedDelta: [
      ...ragged,
      ...recurrence,
      [{ algorithm: "fast" }, "invalid-argument", "algorithm"],
      [{ query: tensor([5, 8]) }, "shape", "query"],
      [{ query: tensor([5, 1, 8], "i32") }, "dtype", "query"],
      [{ query: tensor([4, 1, 8]) }, "shape", "key"],
      [{ query: tensor([5, 1, 8], "bf16") }, "dtype", "key"],
      [{ key: tensor([5, 1, 16]) }, "shape", "key"],
      [{ value: tensor([5, 32]) }, "shape", "value"],
      [{ value: tensor([4, 2, 16]) }, "shape", "value"],
      [{ value: tensor([5, 2, 16], "f16") }, "dtype", "value"],
      [{ out: tensor([5, 2, 8]) }, "shape", "out"],
      [{ out: tensor([5, 2, 16], "f16") }, "dtype", "out"],
      [({ query }) => ({ query: gapped(query) }), "shape", "query"],
      [({ key }) => ({ key: gapped(key) }), "shape", "key"],
      [({ value }) => ({ value: gapped(value) }), "shape", "value"],
      [({ out }) => ({ out: gapped(out) }), "shape", "out"],
      [{ state: tensor([3, 2, 8, 16]) }, "shape", "state"],
      [{ state: tensor([3, 2, 128]) }, "shape", "state"],
      [{ state: tensor([3, 2, 16, 8], "i32") }, "dtype", "state"],
      [({ state }) => ({ state: gapped(state) }), "shape", "state"],
      [({ value }) => ({ out: value }), "overlap", "out"],
      [
        () =>
          overlapping((both) => ({
            value: both.view({ shape: [5, 2, 16] }),
            out: both.view({ offset: 128, shape: [5, 2, 16] }),
          })),
        "overlap",
        "out",
      ],
      [({ state }) => ({ out: (state as Tensor).reshape([768]).view({ shape: [5, 2, 16] }) }), "overlap", "out"],
      [() => ({ query: tensor([5, 1, 12]), key: tensor([5, 1, 12]), state: tensor([3, 2, 16, 12]) }), "shape", "query"],
      [() => ({ query: tensor([5, 3, 8]), key: tensor([5, 3, 8]) }), "shape", "value"],
      [
        () => ({ query: tensor([5, 1, 12]).narrow(2, 0, 8), key: tensor([5, 1, 12]).narrow(2, 0, 8) }),
        "shape",
        "query",
      ],
    ],
    causalConv1d: [
      ...ragged,
      [{ activation: "sigmoid" }, "invalid-argument", "activation"],
      [{ x: tensor([5, 6, 8]) }, "shape", "x"],
      [{ x: tensor([5, 48], "i32") }, "dtype", "x"],
      [({ x }) => ({ x: gapped(x) }), "shape", "x"],
      [{ weight: tensor([48]) }, "shape", "weight"],
      [{ weight: tensor([47, 4]) }, "shape", "weight"],
      [{ weight: tensor([48, 1]), state: undefined, readSlots: undefined, writeSlots: undefined }, "shape", "weight"],
      [{ weight: tensor([48, 10]), state: undefined, readSlots: undefined, writeSlots: undefined }, "shape", "weight"],
      [{ weight: tensor([48, 4], "i32") }, "dtype", "weight"],
      [({ weight }) => ({ weight: gapped(weight) }), "shape", "weight"],
      [{ bias: tensor([47]) }, "shape", "bias"],
      [{ bias: tensor([48], "i32") }, "dtype", "bias"],
      [({ bias }) => ({ bias: gapped(bias) }), "shape", "bias"],
      [{ state: tensor([3, 48, 4]) }, "shape", "state"],
      [{ state: tensor([3, 144]) }, "shape", "state"],
      [{ state: tensor([3, 48, 3], "f16") }, "dtype", "state"],
      [({ state }) => ({ state: gapped(state) }), "shape", "state"],
      [{ out: tensor([4, 48]) }, "shape", "out"],
      [{ out: tensor([5, 48], "bf16") }, "dtype", "out"],
      [({ out }) => ({ out: gapped(out) }), "shape", "out"],
      [({ x }) => ({ out: x }), "overlap", "out"],
    ],
    gatedRmsNorm: [
      [{ activation: "none" }, "invalid-argument", "activation"],
      [{ order: "gate" }, "invalid-argument", "order"],
      [{ eps: -1e-6 }, "invalid-argument", "eps"],
      [{ eps: "1" }, "invalid-argument", "eps"],
      [{ x: tensor([160]) }, "shape", "x"],
      [{ x: tensor([1, 5, 2, 16]) }, "shape", "x"],
      [{ x: tensor([5, 2, 16], "f16") }, "dtype", "x"],
      [({ x }) => ({ x: gapped(x) }), "shape", "x"],
      [{ z: tensor([5, 16, 2]) }, "shape", "z"],
      [{ z: tensor([10, 16]) }, "shape", "z"],
      [{ z: tensor([5, 2, 16], "i32") }, "dtype", "z"],
      [({ z }) => ({ z: gapped(z) }), "shape", "z"],
      [{ weight: tensor([2]) }, "shape", "weight"],
      [{ weight: tensor([16], "i32") }, "dtype", "weight"],
      [({ weight }) => ({ weight: gapped(weight) }), "shape", "weight"],
      [{ out: tensor([5, 2, 8]) }, "shape", "out"],
      [{ out: tensor([5, 2, 16], "bf16") }, "dtype", "out"],
      [({ out }) => ({ out: gapped(out) }), "shape", "out"],
      [({ z }) => ({ out: z }), "overlap", "out"],
    ],
    gatedDeltaStep: [
      ...slotCounts,
      ...slots,
      ...recurrence,
      [{ convActivation: "sigmoid" }, "invalid-argument", "convActivation"],
      [{ normActivation: "none" }, "invalid-argument", "normActivation"],
      [{ normOrder: "both" }, "invalid-argument", "normOrder"],
      [{ normEps: -1 }, "invalid-argument", "normEps"],
      [{ keyHeads: undefined }, "invalid-argument", "keyHeads"],
      [{ keyHeads: "1" }, "invalid-argument", "keyHeads"],
      [{ keyHeads: 1.5 }, "invalid-argument", "keyHeads"],
      [{ keyHeads: 3 }, "shape", "x"],
      [{ x: tensor([2, 1, 48]) }, "shape", "x"],
      [{ x: tensor([2, 32]) }, "shape", "x"],
      [{ x: tensor([2, 48], "i32") }, "dtype", "x"],
      [({ x }) => ({ x: gapped(x) }), "shape", "x"],
      [{ z: tensor([2, 32]) }, "shape", "z"],
      [{ z: tensor([3, 2, 16]) }, "shape", "z"],
      [{ z: tensor([2, 2, 16], "f16") }, "dtype", "z"],
      [({ z }) => ({ z: gapped(z) }), "shape", "z"],
      [{ out: tensor([2, 2, 8]) }, "shape", "out"],
      [{ out: tensor([2, 2, 16], "f16") }, "dtype", "out"],
      [({ out }) => ({ out: gapped(out) }), "shape", "out"],
      [{ convWeight: tensor([47, 4]) }, "shape", "convWeight"],
      [{ convWeight: tensor([48, 4], "i32") }, "dtype", "convWeight"],
      [{ convBias: tensor([47]) }, "shape", "convBias"],
      [{ convState: tensor([3, 48, 4]) }, "shape", "convState"],
      [{ convState: tensor([2, 48, 3]) }, "shape", "convState"],
      [{ convState: tensor([3, 48, 3], "bf16") }, "dtype", "convState"],
      [{ convState: undefined }, "invalid-argument", "convState"],
      [{ state: undefined }, "invalid-argument", "convState"],
      [{ state: undefined, convState: undefined }, "range", "readSlots[0]"],
      [{ state: tensor([3, 2, 8, 16]) }, "shape", "state"],
      [{ normWeight: tensor([8]) }, "shape", "normWeight"],
      [{ normWeight: tensor([16], "i32") }, "dtype", "normWeight"],
      [({ normWeight }) => ({ normWeight: gapped(normWeight) }), "shape", "normWeight"],
      [({ z }) => ({ out: z }), "overlap", "out"],
      [
        () =>
          overlapping((both) => ({
            convState: both.view({ shape: [3, 48, 3] }),
            state: both.view({ offset: 8, shape: [3, 2, 16, 8] }),
          })),
        "overlap",
        "state",
      ],
    ],
    linear: [
      [{ x: tensor([8]) }, "shape", "x"],
      [{ x: tensor([5, 8], "i32") }, "dtype", "x"],
      [({ x }) => ({ x: gapped(x) }), "shape", "x"],
      [{ weight: tensor([16]) }, "shape", "weight"],
      [{ weight: tensor([8, 16]) }, "shape", "weight"],
      [{ weight: tensor([16, 8], "i32") }, "dtype", "weight"],
      [({ weight }) => ({ weight: gapped(weight) }), "shape", "weight"],
      [{ out: tensor([5, 8]) }, "shape", "out"],
      [{ out: tensor([5, 16], "f16") }, "dtype", "out"],
      [({ out }) => ({ out: gapped(out) }), "shape", "out"],
      [
        () => {
          const x = tensor([5, 16]);
          return { x, weight: tensor([16, 16]), out: x };
        },
        "overlap",
        "out",
      ],
    ],
    copySlots: [
      ...slots,
      [{ readSlots: undefined }, "invalid-argument", "readSlots"],
      [{ writeSlots: undefined }, "invalid-argument", "writeSlots"],
      [{ readSlots: [0, 1, 2] }, "shape", "writeSlots"],
      [{ pool: tensor([3, 8], "i32") }, "dtype", "pool"],
      [({ pool }) => ({ pool: gapped(pool) }), "shape", "pool"],
    ],
  };
}
