/** Options that only one backend has: the other refuses them by name when the op is encoded. */
import { expect, test } from "bun:test";
import { makeOp, soundArguments } from "../support/arguments.ts";
import { onEachBackend } from "../support/backends.ts";
import { thrownBy } from "../support/devices.ts";

const only = {
  cpu: [["gatedDelta", { algorithm: "chunked" }]],
  metal: [
    ["linear", { products: "matrix" }],
    ["expertLinear", { products: "matrix" }],
    ["attention", { products: "matrix" }],
  ],
} as const;

onEachBackend("options of one backend", ({ name, device }) => {
  for (const [owner, options] of Object.entries(only)) {
    test.each(options.map(([op, option]) => [op, option] as const))(`${owner}'s: %s %p`, (op, option) => {
      const encode = () => device.run(makeOp(op, { ...soundArguments[op](device), ...option }));
      if (owner === name) {
        encode();
        device.wait();
        return;
      }
      const error = thrownBy(encode);
      expect([error.code, error.argument, error.op]).toEqual(["unsupported", Object.keys(option)[0], op]);
    });
  }
});
