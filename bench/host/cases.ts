/** Submissions whose dispatches are counted. Their sizes are small: the host's work depends only on the number of ops. */
import { join } from "node:path";
import { GatedDeltaNet, StatePool, gatedDeltaStep } from "../../lib/index.ts";
import type { Device, Op } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import { filled } from "../operands.ts";
import { chainOf } from "../step-chain.ts";

const golden = join(import.meta.dir, "../../test/golden");
const keyHeads = 2;
const valueHeads = 4;
const dim = 64;
const width = 4;
const layers = 8;
const channels = (2 * keyHeads + valueHeads) * dim;

export interface Case {
  readonly name: string;
  /** One submission, to its end. */
  run(): void | Promise<void>;
}

/** Arguments of one layer's decode step. */
function layer(device: Device, sequences: number) {
  return {
    x: filled(device, "f32", [sequences, channels]),
    z: filled(device, "f32", [sequences, valueHeads, dim]),
    gate: filled(device, "f32", [sequences, valueHeads]),
    beta: filled(device, "f32", [sequences, valueHeads]),
    out: filled(device, "f32", [sequences, valueHeads, dim]),
    state: filled(device, "f32", [sequences, valueHeads, dim, dim], -0.1, 0.1),
    convState: filled(device, "f32", [sequences, channels, width - 1]),
    convWeight: filled(device, "f32", [channels, width]),
    aLog: filled(device, "f32", [valueHeads]),
    dtBias: filled(device, "f32", [valueHeads]),
    normWeight: filled(device, "f32", [dim]),
    ...({ keyHeads, gateForm: "raw", betaForm: "sigmoid", qkNorm: "l2" } as const),
  };
}

/** The same as three ops. */
function chain(device: Device, args: ReturnType<typeof layer>): readonly Op[] {
  const sequences = args.x.shape[0]!;
  const between = { conv: filled(device, "f32", [sequences, channels]), core: filled(device, "f32", [sequences, valueHeads, dim]) };
  return chainOf({ ...args, between });
}

/** The same ops encoded anew each time, and recorded once. */
function* both(device: Device, name: string, ops: () => readonly Op[]): Generator<Case> {
  yield {
    name: `${name}, encoded`,
    run: () => {
      device.run(...ops());
      device.wait();
    },
  };
  using plan = device.plan((pass) => ops().forEach((op) => pass.encode(op)));
  yield {
    name: `${name}, replayed`,
    run: () => {
      plan.run();
      device.wait();
    },
  };
}

export async function* cases(device: Device): AsyncGenerator<Case> {
  for (const sequences of [1, 64]) {
    const steps = Array.from({ length: layers }, () => layer(device, sequences));
    yield* both(device, `${layers} fused steps of ${sequences}`, () => steps.map((args) => gatedDeltaStep(args)));
    const chains = steps.map((args) => chain(device, args));
    yield* both(device, `${layers} times conv, delta, norm of ${sequences}`, () => chains.flat());
  }
  yield* mixer(device);
  yield* model(device);
}

/** A checkpoint's mixer, including its projections. */
function* mixer(device: Device): Generator<Case> {
  using mixer = GatedDeltaNet.load(device, join(golden, "layer-bf16.safetensors"), { layer: 0 });
  using pool = StatePool.create(device, { slots: 1, layers: 1, ...mixer.stateShape });
  using state = pool.allocate();
  for (const tokens of [1, 40]) {
    const hidden = filled(device, "f32", [tokens, mixer.config.hiddenSize]);
    const out = filled(device, "f32", [tokens, mixer.config.hiddenSize]);
    const name = tokens === 1 ? "a mixer, a token" : `a mixer, ${tokens} tokens`;
    const placeholder = pool.placeholder(1);
    using plan = device.plan((pass) => {
      for (const op of mixer.forward({ hidden, out, step: placeholder })) pass.encode(op);
    });
    yield {
      name: `${name}, encoded`,
      run: () => {
        pool.run([state], (step) => mixer.forward({ hidden, out, step }));
        device.wait();
      },
    };
    yield {
      name: `${name}, replayed`,
      run: () => {
        pool.run([state], plan);
        device.wait();
      },
    };
  }
}

async function* model(device: Device): AsyncGenerator<Case> {
  using model = await LanguageModel.load(device, join(golden, "models/qwen3_5-mlx-4bit"), { states: 4, pages: 16 });
  using sequence = model.sequence();
  for (const count of [1, 24]) {
    const tokens = Array.from({ length: count }, (_, i) => i + 1);
    yield { name: `a whole model, ${count === 1 ? "a token" : `${count} tokens`}`, run: async () => void (await model.run([{ sequence, tokens }])) };
  }
}
