import { DisposedError, GatedDeltaError, describe } from "../errors.ts";
import * as native from "../native/device.ts";
import type { Handle } from "../native/handle.ts";
import { isOp } from "../ops/op.ts";
import { Pins } from "../tensor/pins.ts";
import type { Device } from "./device.ts";
import { DeviceRecorder } from "./encoders.ts";
import { Participants } from "./participants.ts";
import { recordPass } from "./pass.ts";
import type { Pass } from "./pass.ts";
import { Submissions } from "./submissions.ts";
import type { SubmissionSource } from "./submissions.ts";

/**
 * The work of a device: ops are encoded, committed as one submission, and waited for. While the caller's code records ops,
 * other work is refused, since it would mix with them.
 */
export class DeviceWork {
  readonly device: Device;
  /** Owners of the caller's memory that encoded and pending work needs. */
  readonly pins: Pins;
  readonly submissions: Submissions;
  readonly participants: Participants;
  readonly #handle: Handle;
  readonly #recorder: DeviceRecorder;
  #closed = false;
  #recording = false;
  /** The last ticket when an op was last encoded; −1 after these ops were dropped. */
  #encodedAfter = -1;

  /** @param status the native device's words of progress. */
  constructor(device: Device, handle: Handle, status: Int32Array) {
    const source: SubmissionSource = {
      device,
      status,
      failureOf: (ticket, op) => native.failureOf(handle, ticket, op),
      waitFor: (ticket, timeoutMs, op) => native.waitFor(handle, ticket, timeoutMs, op),
      makeNotifier: (op) => native.makeNotifier(handle, op),
      notify: (ticket, op) => native.notify(handle, ticket, op),
    };
    this.device = device;
    this.#handle = handle;
    this.pins = new Pins();
    this.submissions = new Submissions(source, this.pins);
    this.participants = new Participants(source);
    this.#recorder = new DeviceRecorder(device, handle, this.pins, this.participants);
  }

  /** Whether {@link close} was called. */
  get closed(): boolean {
    return this.#closed;
  }

  expectOpen(op: string): void {
    if (this.#closed) throw new DisposedError({ op, expected: "an open device", received: "a closed one" });
  }

  /** Expects an open device on which nothing is being recorded. */
  expectIdle(op: string): void {
    this.expectOpen(op);
    if (this.#recording) throw new GatedDeltaError("state", { op, message: "ops of this device are being recorded, or their index data is being read" });
  }

  /** Whether the next commit may include ops encoded earlier. */
  get open(): boolean {
    return this.#encodedAfter === this.submissions.last;
  }

  /** Encodes and commits; if anything is refused, everything encoded since the last commit is dropped. */
  run(op: string, encode: () => void): number {
    this.expectIdle(op);
    try {
      encode();
      return this.commit(op);
    } catch (error) {
      this.discard();
      throw error;
    }
  }

  /** Encodes an op. Index arrays are read here, and reading a caller's array can run code that calls this device. */
  encode(caller: string, op: unknown): void {
    if (!isOp(op)) {
      const expected = "ops, such as gatedDelta(…) returns, or one function that records a pass";
      throw new GatedDeltaError("invalid-argument", { op: caller, expected, received: describe(op) });
    }
    this.#encodedAfter = this.submissions.last;
    this.#recording = true; // not by `record`, which would make a function for each op
    try {
      this.#recorder.encode(op);
    } finally {
      this.#recording = false;
    }
  }

  /** Encodes the ops that a function records. */
  encodePass(op: string, build: (pass: Pass) => void): void {
    this.#encodedAfter = this.submissions.last;
    this.record(() => recordPass(this.#recorder, op, build));
  }

  /** Runs code of the caller that records ops. */
  record<T>(record: () => T): T {
    this.#recording = true;
    try {
      return record();
    } finally {
      this.#recording = false;
    }
  }

  /** Commits the encoded ops; returns the ticket. */
  commit(op: string): number {
    this.participants.expectCommittable(op);
    const ticket = this.submissions.committed(native.commit(this.#handle, op));
    this.participants.committed(ticket);
    return ticket;
  }

  /** Drops the encoded ops. */
  discard(): void {
    native.discard(this.#handle);
    this.#encodedAfter = -1;
    this.pins.discard();
    this.participants.discarded();
  }

  /** Tells pools which submissions have finished and how. */
  settle(): void {
    if (!this.#closed) this.participants.settle();
  }

  /** Waits for pending work and closes the native device. */
  close(): void {
    this.#closed = true;
    this.submissions.close();
    this.participants.settle();
    native.closeDevice(this.#handle);
    this.pins.clear();
  }
}
