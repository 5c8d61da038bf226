/** Ways in which the arguments of the ops of mixtures can be wrong, one at a time. */
import type { Device } from "../../../lib/index.ts";
import { gapped, makers } from "./kit.ts";
import type { Wrong } from "./kit.ts";
import { sharedArguments } from "./shared.ts";

/** Each change of an op's sound arguments that it must refuse. */
export function wrongExperts(device: Device) {
  const { tensor, overlapping } = makers(device);
  const { quantised, blocks, micro } = sharedArguments(device);
  /** Index data of the host, and of the device. */
  const [host, made] = [tensor([5, 2], "i32"), tensor([5, 2], "id32")];
  const ids: Wrong[] = [
    [{ ids: undefined }, "invalid-argument", "ids"],
    [{ ids: [0, 1, 2, 3, 0, 1, 2, 3, 0, 1] }, "invalid-argument", "ids"],
    [{ ids: new Int32Array(10) }, "invalid-argument", "ids"],
    [{ ids: host }, "dtype", "ids"],
    [{ ids: tensor([5, 2]) }, "dtype", "ids"],
    [{ ids: made.reshape([10]) }, "shape", "ids"],
    [{ ids: gapped(made) }, "shape", "ids"],
  ];

  return {
    route: [
      ...ids,
      [{ normalize: undefined }, "invalid-argument", "normalize"],
      [{ normalize: 1 }, "invalid-argument", "normalize"],
      [{ logits: tensor([20]) }, "shape", "logits"],
      [{ logits: tensor([5, 0]) }, "shape", "logits"],
      [{ logits: tensor([5, 4097]) }, "shape", "logits"],
      [{ logits: tensor([5, 1]) }, "shape", "ids"],
      [{ logits: tensor([4, 4]) }, "shape", "ids"],
      [{ logits: tensor([5, 4], "i32") }, "dtype", "logits"],
      [({ logits }) => ({ logits: gapped(logits) }), "shape", "logits"],
      [{ ids: tensor([5, 0], "id32") }, "shape", "ids"],
      [{ ids: tensor([5, 5], "id32") }, "shape", "ids"],
      [{ weights: tensor([5, 1]) }, "shape", "weights"],
      [{ weights: tensor([5, 2], "bf16") }, "dtype", "weights"],
      [({ weights }) => ({ weights: gapped(weights) }), "shape", "weights"],
      [() => overlapping((both) => ({ logits: both.view({ shape: [5, 4] }), weights: both.view({ offset: 19, shape: [5, 2] }) })), "overlap", "weights"],
    ],
    expertLinear: [
      ...ids,
      [{ x: tensor([8]) }, "shape", "x"],
      [{ x: tensor([4, 8]) }, "shape", "x"],
      [{ x: tensor([5, 3, 8]) }, "shape", "x"],
      [{ x: tensor([5, 1, 2, 8]) }, "shape", "x"],
      [{ x: tensor([5, 8], "i32") }, "dtype", "x"],
      [({ x }) => ({ x: gapped(x) }), "shape", "x"],
      [{ weight: tensor([64, 8]) }, "shape", "weight"],
      [{ weight: tensor([4, 8, 16]) }, "shape", "weight"],
      [{ weight: tensor([0, 16, 8]) }, "shape", "weight"],
      [{ weight: tensor([4097, 16, 8]) }, "shape", "weight"],
      [{ weight: tensor([4, 16, 8], "i32") }, "dtype", "weight"],
      [({ weight }) => ({ weight: gapped(weight) }), "shape", "weight"],
      [{ weight: tensor([4, 15, 8]) }, "shape", "out"],
      [{ ids: tensor([5, 3], "id32") }, "shape", "out"],
      [{ ids: tensor([4, 2], "id32") }, "shape", "x"],
      [{ out: tensor([5, 16]) }, "shape", "out"],
      [{ out: tensor([5, 2, 8]) }, "shape", "out"],
      [{ out: tensor([5, 2, 16], "f16") }, "dtype", "out"],
      [({ out }) => ({ out: gapped(out) }), "shape", "out"],
      [
        () => {
          const x = tensor([5, 2, 16]);
          return { x, weight: tensor([4, 16, 16]), out: x };
        },
        "overlap",
        "out",
      ],
      ...quantised([4, 16], (wide) => ({ x: tensor([5, wide]) })),
      ...blocks([4, 16], (wide) => ({ x: tensor([5, wide]) })),
      ...micro([4, 16], (wide) => ({ x: tensor([5, wide]) })),
    ],
    combineExperts: [
      [{ experts: tensor([5, 16]) }, "shape", "experts"],
      [{ experts: tensor([5, 3, 16]) }, "shape", "weights"],
      [{ experts: tensor([5, 2, 16], "i32") }, "dtype", "experts"],
      [({ experts }) => ({ experts: gapped(experts) }), "shape", "experts"],
      [{ weights: undefined }, "invalid-argument", "weights"],
      [{ weights: tensor([5, 1]) }, "shape", "weights"],
      [{ weights: tensor([5, 2], "bf16") }, "dtype", "weights"],
      [({ weights }) => ({ weights: gapped(weights) }), "shape", "weights"],
      [{ shared: tensor([5, 2, 16]) }, "shape", "shared"],
      [{ shared: tensor([5, 16], "u32") }, "dtype", "shared"],
      [({ shared }) => ({ shared: gapped(shared) }), "shape", "shared"],
      [{ shared: undefined }, "invalid-argument", "sharedGate"],
      [{ sharedGate: tensor([5]) }, "shape", "sharedGate"],
      [{ sharedGate: tensor([5, 16]) }, "shape", "sharedGate"],
      [{ sharedGate: tensor([5, 1], "i32") }, "dtype", "sharedGate"],
      [{ residual: tensor([5, 8]) }, "shape", "residual"],
      [{ residual: tensor([5, 16], "i32") }, "dtype", "residual"],
      [{ experts: tensor([5, 2, 16], "bf16"), residual: tensor([5, 16], "f16") }, "dtype", "residual"],
      [({ residual }) => ({ residual: gapped(residual) }), "shape", "residual"],
      [{ out: tensor([5, 8]) }, "shape", "out"],
      [{ experts: tensor([5, 2, 16], "bf16"), out: tensor([5, 16], "f16") }, "dtype", "out"],
      [({ out }) => ({ out: gapped(out) }), "shape", "out"],
      [({ shared }) => ({ out: shared }), "overlap", "out"],
      // Part of the residual, or the residual in another layout.
      [
        () => overlapping((both) => ({ residual: both.view({ shape: [5, 16] }), out: both.view({ offset: 8, shape: [5, 16] }) })),
        "overlap",
        "out",
      ],
      [
        () => overlapping((both) => ({ residual: both.view({ shape: [5, 16] }), out: both.view({ shape: [5, 16], strides: [24, 1] }) })),
        "overlap",
        "out",
      ],
    ],
  } satisfies Record<string, readonly Wrong[]>;
}
