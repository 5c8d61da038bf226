import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { asDeviceOptions, asFinishOptions, asTimeout } from "./device-options.ts";
import type { BackendName, DeviceOptions, FinishOptions } from "./device-options.ts";
import { asDType } from "../tensor/dtype.ts";
import type { DType } from "../tensor/dtype.ts";
import { knowDevice, native } from "./device-handle.ts";
import * as nativeDevice from "../native/device.ts";
import type { Handle } from "../native/handle.ts";
import type { Op } from "../ops/op.ts";
import type { Participant } from "../ops/recorder.ts";
import type { Pass } from "./pass.ts";
import { FileMapping, fileMapping } from "../tensor/mapped-storage.ts";
import type { Pins } from "../tensor/pins.ts";
import { makePlan } from "./plan.ts";
import { preparePlan } from "./prepare.ts";
import type { Plan } from "./plan.ts";
import { asShape, bytesOf } from "../tensor/shape.ts";
import { allocateStorage } from "../tensor/storage.ts";
import { contiguousStrides } from "../tensor/strides.ts";
import { makeTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { DeviceWork } from "./work.ts";
import { wrapAddress, wrapMemory } from "./wrap.ts";
import type { FromPointerOptions } from "./wrap.ts";

/** Runs the ops of a pass over states. */
export const runPass: unique symbol = Symbol("run pass");

/** Tells pools about finished submissions. */
export const settle: unique symbol = Symbol("settle");

/** {@link Device.finish} for the submissions up to a ticket. */
export const finishUpTo: unique symbol = Symbol("finish up to");

/** Whether there are encoded ops that are not committed yet. */
export const hasEncoded: unique symbol = Symbol("has encoded");

/** Keeps the failure of the last submission from being reported. */
export const ignoreFailure: unique symbol = Symbol("ignore failure");

/**
 * A device that runs ops: the GPU through Metal, or the CPU.
 *
 * Ops are encoded, then committed as one submission; submissions run in order, without blocking the caller. `run`
 * does both. Results are ready when {@link wait} or {@link finish} has returned.
 *
 * A device belongs to the Worker that opened it. Use one per Worker; all of them share the same threads. When the Worker
 * ends, or when a device that was not closed is garbage-collected, pending work on the library's own memory continues in
 * the background. Work is stopped from the first submission that uses wrapped memory; its results are then undefined.
 *
 * @example
 * using device = Device.open();
 * const x = device.tensorFrom("f32", [2, 2], [1, 2, 3, 4]);
 * const weight = device.tensorFrom("f32", [2, 2], [1, 0, 0, 1]);
 * const out = device.tensor("f32", [2, 2]);
 * device.run(linear({ x, weight, out }));
 * await device.finish();
 * console.log(out.data); // Float32Array [1, 2, 3, 4]
 */
export class Device implements Disposable {
  static readonly #collected = new FinalizationRegistry<{ handle: Handle; pins: Pins }>(({ handle, pins }) => {
    nativeDevice.abandonDevice(handle);
    pins.clear();
  });

  /** The backend in use. */
  readonly backend: "cpu" | "metal";
  /** Name of the hardware, as the system gives it. */
  readonly name: string;
  /** The instruction set of the CPU backend's kernels; empty on Metal. */
  readonly isa: string;
  /** Number of CPU threads in use. */
  readonly threads: number;
  /** Whether this is the emulated Metal of a clone on Linux. */
  readonly emulated: boolean;

  readonly #handle: Handle;
  readonly #work: DeviceWork;

  private constructor(by: Maker, options: BackendName | DeviceOptions | undefined) {
    expectMaker(by, "Device", "Device.open(…)");
    const { backend, threads } = asDeviceOptions(options);
    this.#handle = nativeDevice.openDevice(backend, threads);
    const description = describeOrClose(this.#handle);
    this.backend = description.backend;
    this.name = description.name;
    this.isa = description.isa;
    this.threads = description.threads;
    this.emulated = description.emulated;
    this.#work = new DeviceWork(this, this.#handle, description.status);
    Device.#collected.register(this, { handle: this.#handle, pins: this.#work.pins }, this);
    knowDevice(this);
    Object.freeze(this);
  }

  /**
   * Opens a device, loading the native library on first use.
   *
   * @param options a backend's name, or options.
   * @throws {LibraryError} when the library can't be found or loaded.
   * @throws {GatedDeltaError} for unknown options, or a backend that is not available.
   */
  static open(options?: BackendName | DeviceOptions): Device {
    return new Device(maker, options);
  }

  /** The native handle. @internal */
  get [native](): Handle {
    this.#work.expectOpen("device");
    return this.#handle;
  }

  /** Maps files into the device's memory. @internal */
  get [fileMapping](): FileMapping {
    const handle = this[native];
    return new FileMapping(handle, nativeDevice.describeDevice(handle).largestBuffer);
  }

  /** Tells pools which submissions have finished and how. @internal */
  [settle](): void {
    this.#work.settle();
  }

  /** {@link finish} for the submissions up to a ticket, regardless of later ones. @internal */
  async [finishUpTo](ticket: number): Promise<void> {
    const op = "device.finish";
    this.#work.expectIdle(op);
    try {
      await this.#work.submissions.finish(op, undefined, undefined, ticket);
    } finally {
      this.#work.settle();
    }
  }

  /** Whether the next commit may include ops encoded earlier. @internal */
  get [hasEncoded](): boolean {
    return this.#work.open;
  }

  /**
   * Keeps a failure of the last submission from being reported: the states that it was to write are invalid, and only their users
   * need to know. @internal
   */
  [ignoreFailure](): void {
    this.#work.submissions.ignoreLast();
  }

  /** Whether the device is closed. */
  get closed(): boolean {
    return this.#work.closed;
  }

  /**
   * Bytes of memory that the device's tensors and plans use now. `own` is allocated memory. `mapped` is the size of mapped files' windows,
   * whose memory is the system's file cache. Memory that only pending work needs counts too; wrapped memory does not.
   *
   * @throws {DisposedError} after the device is closed.
   */
  get memory(): {
    /** Allocated memory. */
    readonly own: number;
    /** Windows of mapped files. */
    readonly mapped: number;
  } {
    this.#work.expectOpen("device.memory");
    return nativeDevice.memoryOf(this.#handle, "device.memory");
  }

  /** The ticket of the last commit, 0 before any. */
  get lastTicket(): number {
    return this.#work.submissions.last;
  }

  /**
   * Allocates a tensor of zeros.
   *
   * @param shape 1 to 8 dimensions; 0 is a legal length.
   * @throws {ShapeError} beyond 4 GiB − 16 KiB.
   */
  tensor<D extends DType>(dtype: D, shape: readonly number[]): Tensor<D> {
    return this.#allocate("device.tensor", dtype, shape);
  }

  /**
   * Allocates a tensor and copies elements into it, as {@link Tensor.copyFrom} does.
   *
   * @param shape 1 to 8 dimensions; 0 is a legal length.
   * @param source as many numbers as the shape has elements.
   * @throws {ShapeError} beyond 4 GiB − 16 KiB; {@link GatedDeltaError} as {@link Tensor.copyFrom}.
   */
  tensorFrom<D extends DType>(dtype: D, shape: readonly number[], source: ArrayLike<number>): Tensor<D> {
    const tensor = this.#allocate("device.tensorFrom", dtype, shape);
    try {
      return tensor.copyFrom(source);
    } catch (error) {
      tensor[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * A tensor over existing memory, without a copy: a SharedArrayBuffer (or a view of one) of fixed length, or a typed
   * array over a tensor of this device. On the CPU backend the memory must start at a multiple of 64 bytes; on Metal its
   * start and length must be multiples of 16384. Memory with any other alignment is refused; allocate a tensor for it and
   * call {@link Tensor.copyFrom}.
   *
   * The memory stays reachable until the tensor is disposed and pending work on it is done.
   *
   * @throws {GatedDeltaError} for memory that is refused, or too short for the shape.
   */
  wrap<D extends DType>(
    dtype: D,
    shape: readonly number[],
    memory: SharedArrayBuffer | ArrayBufferView<ArrayBufferLike>,
  ): Tensor<D> {
    return wrapMemory(this, dtype, shape, memory, false);
  }

  /**
   * As {@link wrap}, but also for ordinary ArrayBuffers and views of them. JavaScript can detach such a buffer, by
   * transfer or postMessage, which frees memory that the device uses: the process may crash. Make sure that this does
   * not happen before the tensor is disposed and pending work on it is done.
   *
   * @throws {GatedDeltaError} as {@link wrap}.
   */
  unsafeWrap<D extends DType>(
    dtype: D,
    shape: readonly number[],
    memory: ArrayBufferLike | ArrayBufferView<ArrayBufferLike>,
  ): Tensor<D> {
    return wrapMemory(this, dtype, shape, memory, true);
  }

  /**
   * A tensor over memory of another native library, without a copy. The memory must stay valid until the tensor and
   * its `data` are gone and pending work on it is done; `owner` is kept reachable that long.
   *
   * Nothing can check a raw pointer: a wrong address or length ends the process or corrupts memory.
   *
   * @param pointer address of the first element: the CPU backend needs a multiple of 64, Metal of 16384.
   * @param options `owner`, and `bytes`, the length of the memory; Metal needs a multiple of 16384.
   * @throws {GatedDeltaError} if the backend can't use memory with this alignment.
   */
  fromPointer<D extends DType>(dtype: D, shape: readonly number[], pointer: number, options: FromPointerOptions): Tensor<D> {
    return wrapAddress(this, dtype, shape, pointer, options);
  }

  /**
   * Encodes ops and commits them as one submission, which runs in the background.
   *
   * If an op is refused, nothing runs: everything encoded since the last commit is dropped.
   *
   * @returns the submission's ticket: 1, 2, 3, … in order.
   * @throws {GatedDeltaError} that names the op and the argument that do not fit, before anything runs.
   * @example
   * device.run(causalConv1d({ … }), gatedDelta({ … }));
   * device.run((pass) => {
   *   pass.causalConv1d({ … });
   *   pass.gatedDelta({ … });
   * });
   */
  run(build: (pass: Pass) => void): number;
  run(...ops: readonly Op[]): number;
  run(...work: readonly (Op | ((pass: Pass) => void))[]): number {
    const op = "device.run";
    const [first] = work;
    return this.#work.run(op, () => {
      if (typeof first === "function" && work.length === 1) this.#work.encodePass(op, first);
      else for (const each of work) this.#work.encode(op, each);
    });
  }

  /** {@link run} for a pass over states, which takes part in the submission even without ops. @internal */
  [runPass](op: string, participant: Participant, ops: readonly Op[]): number {
    return this.#work.run(op, () => {
      this.#work.participants.join(participant);
      for (const each of ops) this.#work.encode(op, each);
    });
  }

  /**
   * Encodes an op for the next {@link submit}. If it is refused, ops encoded earlier stay.
   *
   * @throws {GatedDeltaError} that names the argument that does not fit.
   */
  encode(op: Op): void {
    this.#work.expectIdle("device.encode");
    this.#work.encode("device.encode", op);
  }

  /**
   * Commits the encoded ops as one submission.
   *
   * @returns the submission's ticket, or the last one again if nothing was encoded.
   * @throws {GatedDeltaError} of code `state` if an op belongs to an abandoned step or draft; {@link discard} drops it.
   */
  submit(): number {
    this.#work.expectIdle("device.submit");
    return this.#work.commit("device.submit");
  }

  /** Drops the ops encoded since the last commit. */
  discard(): void {
    this.#work.expectIdle("device.discard");
    this.#work.discard();
  }

  /**
   * Records ops for replay, without running them. Everything is checked here, once, so that {@link Plan.run} is a single
   * native call.
   *
   * @throws {GatedDeltaError} that names the op and the argument that do not fit; no plan is made then.
   */
  plan(build: (pass: Pass) => void): Plan {
    this.#work.expectIdle("device.plan");
    return this.#work.record(() => makePlan(this.#work, build));
  }

  /**
   * Compiles the kernels of ops before their first run, on a background thread, and resolves when they are compiled.
   * Otherwise the GPU's kernels are compiled at their first use, which takes from a few milliseconds to a few tenths of a
   * second each. The CPU's kernels are precompiled, so there the promise resolves at once.
   *
   * Ops are recorded and checked as by {@link plan}, but not run. The kernels serve every op of the same
   * dtypes, dims and options, with a similar number of tokens and sequences: prepare one decode step and one prefill of
   * about the expected lengths.
   *
   * @param build records the ops; index arrays and tensors are checked but not kept.
   * @throws {GatedDeltaError} (as a rejection) with the error of `build` or of an op, with the failure of a kernel that
   *   does not compile, and as {@link DisposedError} if the device is closed first.
   * @example
   * await device.prepare((pass) => pass.gatedDeltaStep({ … }));
   */
  async prepare(build: (pass: Pass) => void): Promise<void> {
    const op = "device.prepare";
    this.#work.expectIdle(op);
    const ops = this.#work.record(() => preparePlan(this, build));
    try {
      while (!ops.isReady(op)) {
        await Bun.sleep(1);
        this.#work.expectOpen(op);
      }
    } finally {
      ops.release();
    }
  }

  /**
   * Blocks until all committed work is done.
   *
   * @param timeoutMs the longest wait. @default Infinity
   * @throws {TimeoutError} when the time is over; the work continues.
   * @throws {GatedDeltaError} the failure of a submission that has not been reported yet, with its op. Each call reports
   *   one failure.
   */
  wait(timeoutMs?: number): void {
    this.#work.expectIdle("device.wait");
    const timeout = asTimeout("device.wait", timeoutMs);
    try {
      this.#work.submissions.wait("device.wait", timeout);
    } finally {
      this.#work.settle();
    }
  }

  /**
   * Resolves when all work committed so far is done, without blocking the event loop. It keeps the process alive while
   * it waits.
   *
   * @throws {GatedDeltaError} (as a rejection) as {@link wait}; the signal's reason if the signal is aborted.
   */
  async finish(options: FinishOptions = {}): Promise<void> {
    const op = "device.finish";
    this.#work.expectIdle(op);
    const { signal, timeoutMs } = asFinishOptions(op, options);
    try {
      await this.#work.submissions.finish(op, signal, timeoutMs);
    } finally {
      this.#work.settle();
    }
  }

  /**
   * Closes the device after waiting for pending work, whose failures are not reported. Its tensors can still be read; its
   * plans end. Closing again does nothing.
   */
  close(): void {
    if (this.closed) return;
    this.#work.expectIdle("device.close");
    Device.#collected.unregister(this);
    this.#work.close();
  }

  /** {@link close}. */
  [Symbol.dispose](): void {
    this.close();
  }

  #allocate<D extends DType>(op: string, dtype: D, shape: readonly number[]): Tensor<D> {
    this.#work.expectOpen(op);
    asDType(dtype, op, "dtype");
    const dimensions = asShape(op, "shape", shape);
    const storage = allocateStorage(this.#handle, bytesOf(op, dtype, dimensions), op);
    return makeTensor(this, storage, dtype, 0, dimensions, contiguousStrides(dimensions));
  }
}

function describeOrClose(handle: Handle): nativeDevice.DeviceDescription {
  try {
    return nativeDevice.describeDevice(handle);
  } catch (error) {
    nativeDevice.closeDevice(handle);
    throw error;
  }
}
