/**
 * Promises of the API's types, checked by `bun check` and never run: each `@ts-expect-error` fails to compile when
 * the line below it is no longer a mistake.
 */
import {
  Device,
  StatePool,
  Tensor,
  causalConv1d,
  copySlots,
  gatedDelta,
  gatedDeltaStep,
  gatedRmsNorm,
  linear,
} from "../lib/index.ts";
import type { DType, GatedDeltaArguments, GatedDeltaError, Op, Plan, PoolStep, StateHandle } from "../lib/index.ts";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(..._: Equal<A, B> extends true ? [] : [different: never]): void => {};

declare const device: Device;
declare const f32: Tensor<"f32">;
declare const bf16: Tensor<"bf16">;
declare const i32: Tensor<"i32">;
declare const pool: StatePool;
declare const recurrence: GatedDeltaArguments;

export async function promises(): Promise<void> {
  // A tensor's dtype decides its typed array.
  same<typeof f32.data, Float32Array>();
  same<typeof bf16.data, Uint16Array>();
  same<typeof i32.data, Int32Array>();
  const f16 = device.tensor("f16", [1]);
  same<typeof f16, Tensor<"f16">>();
  same<typeof f16.data, Float16Array>();
  same<ReturnType<typeof f16.reshape>, Tensor<"f16">>();
  same<ReturnType<typeof f16.toFloat32>, Float32Array<ArrayBuffer>>();
  same<ReturnType<typeof f16.copyFrom>, Tensor<"f16">>();
  const any: Tensor = f32;
  same<typeof any.dtype, DType>();
  // @ts-expect-error no such dtype
  device.tensor("f64", [1]);
  // @ts-expect-error a shape is an array
  device.tensor("f32", 4);
  // @ts-expect-error shapes don't change
  f32.shape[0] = 1;
  // @ts-expect-error dtypes don't change
  f32.dtype = "f16";
  // @ts-expect-error tensors come from devices
  new Tensor();
  // @ts-expect-error ordinary memory can be detached: that takes unsafeWrap
  device.wrap("f32", [1], new ArrayBuffer(4));
  device.unsafeWrap("f32", [1], new ArrayBuffer(4));
  device.wrap("f32", [1], new SharedArrayBuffer(4));
  // @ts-expect-error an owner is not optional
  device.fromPointer("f32", [1], 1);

  // Opening.
  Device.open();
  Device.open("cpu");
  Device.open({ backend: "metal", threads: 2 });
  // @ts-expect-error no such backend
  Device.open("gpu");
  // @ts-expect-error misspelt
  Device.open({ thread: 2 });

  // Running.
  same<ReturnType<typeof linear>, Op>();
  const op = linear({ x: f32, weight: bf16, out: f32 });
  same<ReturnType<typeof device.plan>, Plan>();
  const ticket: number = device.run(op, op);
  device.run((pass) => pass.linear({ x: f32, weight: f32, out: f32 }));
  // @ts-expect-error not an op
  device.run({});
  const build = () => {};
  // @ts-expect-error one function
  device.run(build, build);
  await device.finish({ signal: new AbortController().signal, timeoutMs: 1 });
  // @ts-expect-error misspelt
  await device.finish({ timeout: ticket });

  // Ops: the gate's form is never a guess, and options are exact.
  const recurrence = { query: f32, key: f32, value: f32, gate: f32, beta: f32, out: f32 };
  gatedDelta({ ...recurrence, gateForm: "log" });
  gatedDelta({
    ...recurrence,
    gateForm: "raw",
    aLog: f32,
    dtBias: f32,
    state: undefined,
    readSlots: [0],
    writeSlots: i32,
    cuSeqlens: new Int32Array(2),
  });
  // @ts-expect-error gateForm has no default
  gatedDelta(recurrence);
  // @ts-expect-error no such form
  gatedDelta({ ...recurrence, gateForm: "exp" });
  // @ts-expect-error misspelt
  gatedDelta({ ...recurrence, gateForm: "log", qknorm: "l2" });
  // @ts-expect-error index data are i32
  gatedDelta({ ...recurrence, gateForm: "log", readSlots: f32 });
  // @ts-expect-error index data are i32
  gatedDelta({ ...recurrence, gateForm: "log", readSlots: new Uint32Array(1) });
  causalConv1d({ x: f32, weight: f32, out: f32, activation: "none" });
  // @ts-expect-error a convolution has no sigmoid
  causalConv1d({ x: f32, weight: f32, out: f32, activation: "sigmoid" });
  gatedRmsNorm({ x: f32, z: bf16, weight: bf16, out: bf16, activation: "sigmoid", order: "gate-then-norm" });
  // @ts-expect-error a norm has a gate
  gatedRmsNorm({ x: f32, weight: f32, out: f32 });
  // @ts-expect-error keyHeads can't be told from the shapes
  gatedDeltaStep({ x: f32, convWeight: f32, gate: f32, beta: f32, z: f32, normWeight: f32, out: f32, gateForm: "log" });
  // @ts-expect-error slots are not optional here
  copySlots({ pool: f32, readSlots: [0] });

  // Pools.
  same<ReturnType<typeof pool.allocate>, StateHandle>();
  same<ReturnType<typeof pool.step>, PoolStep>();
  same<PoolStep["readSlots"], Int32Array>();
  const sizes = { slots: 1, layers: 1, keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8 };
  StatePool.create(device, { ...sizes, convWidth: 4, stateDtype: "bf16" });
  // @ts-expect-error states are floats
  StatePool.create(device, { ...sizes, convWidth: 4, stateDtype: "i32" });
  StatePool.create(device, { ...sizes, conv: false });
  pool.run([pool.allocate()], (step) => [linear({ x: f32, weight: f32, out: f32 }), gatedDelta({ ...recurrence, gateForm: "log", states: step.layer(0) })]);
  // @ts-expect-error a step's states stand for the slots of one layer
  gatedDelta({ ...recurrence, gateForm: "log", states: pool.step([]) });

  // Everything that ends is Disposable.
  const disposables: Disposable[] = [device, f32, pool, pool.allocate(), pool.step([]), device.plan(() => {})];
  const code: GatedDeltaError["code"] | undefined = undefined as GatedDeltaError["code"] | undefined;
  // @ts-expect-error no such code
  if (code === "oops") disposables.pop();
}
