/** Ways in which the arguments of the convolutions and their commits can be wrong, one at a time. */
import type { Device } from "../../../lib/index.ts";
import { gapped, makers } from "./kit.ts";
import type { Wrong } from "./kit.ts";
import { sharedArguments } from "./shared.ts";

/** Each change of an op's sound arguments that it must refuse. */
export function wrongConvolutions(device: Device) {
  const { tensor, overlapping } = makers(device);
  const { slots, slotCounts, ragged, kept, counts, ids } = sharedArguments(device);

  const update: Wrong[] = [
    [{ x: tensor([48]) }, "shape", "x"],
    [{ x: tensor([2, 48], "f16") }, "dtype", "x"],
    [({ x }) => ({ x: gapped(x) }), "shape", "x"],
    [{ weight: tensor([47, 4]) }, "shape", "weight"],
    [{ weight: tensor([48, 1]) }, "shape", "weight"],
    [{ weight: tensor([48, 10]) }, "shape", "weight"],
    [{ weight: tensor([48, 4], "bf16") }, "dtype", "weight"],
    [{ out: tensor([3, 48]) }, "shape", "out"],
    [{ out: tensor([2, 48], "f16") }, "dtype", "out"],
    [({ x }) => ({ out: x }), "overlap", "out"],
    [{ silu: 1 }, "invalid-argument", "silu"],
    [{ silu: undefined }, "invalid-argument", "silu"],
  ];

  return {
    causalConv1d: [
      ...ragged,
      ...kept([48, 3], "f16"),
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
    commitCausalConv1d: [
      ...slotCounts,
      ...slots,
      ...counts,
      [{ x: tensor([48]) }, "shape", "x"],
      [{ x: tensor([5, 48], "i32") }, "dtype", "x"],
      [({ x }) => ({ x: gapped(x) }), "shape", "x"],
      [{ state: undefined }, "invalid-argument", "state"],
      [{ state: tensor([3, 47, 3]) }, "shape", "state"],
      [{ state: tensor([3, 48, 9]) }, "shape", "state"],
      [{ state: tensor([3, 48, 3], "bf16") }, "dtype", "state"],
    ],
    ssmConvUpdateInplace: [
      ...update,
      [{ convStates: tensor([3, 48, 3]) }, "shape", "convStates"],
      [{ convStates: tensor([2, 48, 3], "f16") }, "dtype", "convStates"],
      [{ convStateDst: tensor([2, 48, 4]) }, "shape", "convStateDst"],
      [
        () =>
          overlapping((both) => ({
            convStates: both.view({ shape: [2, 48, 3] }),
            convStateDst: both.view({ offset: 144, shape: [2, 48, 3] }),
          })),
        "overlap",
        "convStateDst",
      ],
    ],
    ssmConvUpdateInplaceIds: [
      ...update,
      ...ids,
      [{ convCache: tensor([3, 48, 4]) }, "shape", "convCache"],
      [{ convCache: tensor([1, 48, 3]), rsHead: 0 }, "shape", "convCache"],
      [{ convCache: tensor([3, 48, 3], "f16") }, "dtype", "convCache"],
    ],
  } satisfies Record<string, readonly Wrong[]>;
}
