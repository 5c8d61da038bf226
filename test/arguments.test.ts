/** Every way in which a TypeScript caller's arguments for an op can be wrong. */
import { describe, expect, test } from "bun:test";
import { GatedDeltaError, Op, Tensor } from "../lib/index.ts";
import type { DType } from "../lib/index.ts";
import { addOp, makeOp, opNames, soundArguments, tensorsOf } from "./support/arguments.ts";
import type { OpName } from "./support/arguments.ts";
import { counting, openDevice, thrownBy } from "./support/devices.ts";
import { wrongArguments } from "./support/wrong-arguments.ts";
import type { Wrong } from "./support/wrong-arguments.ts";

const device = openDevice();
const wrongs = wrongArguments(device);

/** Runs an op directly and in a plan; both must refuse it in the same words and run nothing. */
function expectRefusal(name: OpName, [change, code, argument]: Wrong): void {
  const sound = soundArguments[name](device);
  const args = { ...sound, ...(typeof change === "function" ? change(sound) : change) };
  const watched = tensorsOf(args).filter(([, value]) => value.dtype === "f32" && value.contiguous);
  for (const [, value] of watched) value.data.fill(7);
  const last = device.lastTicket;
  const error = thrownBy(() => device.run(makeOp(name, args)));
  expect({ code: error.code, op: error.op, argument: error.argument }).toEqual({ code, op: name, argument });
  expect(error.message).toContain(name);
  if (error.cause === undefined) expect(`${error.expected}`).not.toBe("undefined");
  const planned = thrownBy(() => device.plan((pass) => addOp(pass, name, args)));
  expect({ code: planned.code, op: planned.op, argument: planned.argument }).toEqual({ code, op: name, argument });
  expect(device.submit()).toBe(last);
  for (const [key, value] of watched) expect([key, value.data.every((x) => x === 7)]).toEqual([key, true]);
}

/** Optional arguments of ops that differ from the others. */
const optionalOf: Readonly<Record<string, readonly string[]>> = { attention: ["gate", "queryNorm", "keyNorm", "positions"] };
/** Ops that require arguments that are optional elsewhere. */
const required = /^(?:copySlots|commit|gatedDeltaNet|ssm)/;

describe.each(opNames)("%s", (name) => {
  const sound = () => soundArguments[name](device);

  test("takes sound arguments", () => {
    const op = makeOp(name, sound());
    expect(op).toBeInstanceOf(Op);
    expect(op.name).toBe(name);
    device.run(op, op);
    device.wait();
    using plan = device.plan((pass) => addOp(pass, name, sound()));
    plan.run();
    device.wait();
  });

  const named = wrongs[name].map((wrong, i) => [`${i} ${wrong[1]} ${wrong[2]}`, wrong] as const);
  test.each(named)("refuses wrong arguments: %s", (_, wrong) => expectRefusal(name, wrong));

  test("takes arguments without what may be left out", () => {
    const args = sound();
    const optional = (optionalOf[name] ?? ["bias", "convBias", "cuSeqlens", "readSlots", "writeSlots", "state", "convState"]).filter(
      (argument) => argument in args && !required.test(name),
    );
    for (const argument of optional) delete args[argument];
    device.run(makeOp(name, args));
    device.run(makeOp(name, { ...args, ...Object.fromEntries(optional.map((argument) => [argument, undefined])) }));
    if ("aLog" in args) device.run(makeOp(name, { ...args, gateForm: "log", aLog: undefined, dtBias: undefined }));
    device.wait();
  });

  test("refuses what is no object of arguments", () => {
    for (const args of [undefined, null, 3, "x", true, Symbol("x"), () => {}]) {
      expect(thrownBy(() => makeOp(name, args))).toMatchObject({ code: "invalid-argument", op: name });
    }
    expect(thrownBy(() => makeOp(name, {})).code).toBe("invalid-argument");
  });

  test("refuses unknown arguments, in a call and in a plan, whatever they are", () => {
    for (const value of ["l2", undefined, 3]) {
      const args = { ...sound(), qknorm: value };
      const expected = { code: "invalid-argument", op: name, argument: "qknorm" };
      expect(thrownBy(() => makeOp(name, args))).toMatchObject(expected);
      expect(thrownBy(() => device.plan((pass) => addOp(pass, name, args)))).toMatchObject(expected);
    }
    // The error names the unknown argument, not the missing one that it replaces.
    const [first, ...rest] = Object.entries(sound());
    const misspelt = { ...Object.fromEntries(rest), [`${first![0]}s`]: first![1] };
    expect(thrownBy(() => makeOp(name, misspelt))).toMatchObject({ argument: `${first![0]}s` });
    // An object with a prototype may have as many keys as are known, and still have an unknown one.
    const inherits = Object.assign(Object.create({ [first![0]]: first![1] }) as object, Object.fromEntries(rest), { extra: 1 });
    expect(thrownBy(() => makeOp(name, inherits))).toMatchObject({ code: "invalid-argument", op: name, argument: "extra" });
  });

  test("takes arguments of any prototype", () => {
    const args = sound();
    for (const object of [Object.assign(Object.create(null) as object, args), Object.create(args) as object]) {
      device.run(makeOp(name, object));
    }
    device.wait();
  });

  test("refuses what is no tensor, wherever one is due", () => {
    const lookalike = { dtype: "f32", shape: [1], strides: [1], contiguous: true, data: new Float32Array(1) };
    for (const [argument] of tensorsOf(sound())) {
      for (const value of [null, 3, "x", [1, 2], new Float32Array(4), lookalike, Object.create(Tensor.prototype)]) {
        const error = thrownBy(() => makeOp(name, { ...sound(), [argument]: value }));
        expect(error).toMatchObject({ code: "invalid-argument", op: name, argument });
      }
    }
  });

  test("refuses a tensor that was disposed, before or after the op was made", () => {
    for (const [argument] of tensorsOf(sound())) {
      const args = sound();
      const op = makeOp(name, args);
      (args[argument] as Tensor)[Symbol.dispose]();
      const error = thrownBy(() => device.run(op));
      expect(error).toMatchObject({ code: "disposed", op: name, argument });
      expect(thrownBy(() => device.run(makeOp(name, args)))).toMatchObject({ code: "disposed", op: name, argument });
    }
  });

  test("refuses a tensor of another device", () => {
    using other = openDevice();
    for (const [argument, { dtype, shape }] of tensorsOf(sound())) {
      const op = makeOp(name, { ...sound(), [argument]: other.tensor(dtype, shape) });
      expect(thrownBy(() => device.run(op))).toMatchObject({ code: "invalid-argument", op: name, argument });
    }
  });

  test("an argument that throws while it is read is the cause of a typed error", () => {
    for (const argument of Object.keys(sound())) {
      const boo = new Error("boo");
      const args = sound();
      Object.defineProperty(args, argument, {
        enumerable: true,
        get() {
          throw boo;
        },
      });
      const error = thrownBy(() => makeOp(name, args));
      expect([error.code, error.op, error.argument?.split(".")[0], error.cause]).toEqual(["invalid-argument", name, argument, boo]);
      expect(thrownBy(() => device.plan((pass) => addOp(pass, name, args))).code).toBe("invalid-argument");
    }
  });

  test("each argument is read once, so one that changes can't get past the checks", () => {
    const args = sound();
    const reads = new Map<string, number>();
    const watching = new Proxy(args, {
      get(target, key: string) {
        reads.set(key, (reads.get(key) ?? 0) + 1);
        return target[key];
      },
    });
    device.run(makeOp(name, watching));
    expect([...reads.values()].every((count) => count === 1)).toBe(true);
    for (const key of Object.keys(args)) expect(reads.has(key)).toBe(true);
    device.wait();
  });

  test("an index array that misbehaves while it is read is a typed error", () => {
    for (const argument of ["cuSeqlens", "readSlots", "writeSlots"]) {
      const { [argument]: array } = sound();
      if (array === undefined) continue;
      const hostile: unknown[] = [
        new Proxy(array as number[], {
          get() {
            throw new Error("boo");
          },
        }),
        new Proxy(array as number[], { get: (target, key) => (key === "length" ? 2 ** 40 : Reflect.get(target, key)) }),
        new Proxy(array as number[], { get: (target, key) => (key === "length" ? NaN : Reflect.get(target, key)) }),
        new Proxy(array as number[], { get: (target, key) => (key === "length" ? -1 : Reflect.get(target, key)) }),
        Object.defineProperty([...(array as number[])], 1, {
          get() {
            throw new Error("boo");
          },
        }),
      ];
      for (const value of hostile) {
        expect(thrownBy(() => device.run(makeOp(name, { ...sound(), [argument]: value })))).toBeInstanceOf(
          GatedDeltaError,
        );
      }
    }
  });

  test("index data come as an array, an Int32Array of any memory or a tensor", () => {
    const args = sound();
    const names = ["cuSeqlens", "readSlots", "writeSlots"].filter((argument) => argument in args);
    const forms: ((values: number[]) => unknown)[] = [
      (values) => values,
      (values) => Int32Array.from(values),
      (values) => new Int32Array(new SharedArrayBuffer(64), 8, values.length).fill(0).map((_, i) => values[i]!),
      (values) => {
        const growable = new Int32Array(new SharedArrayBuffer(4 * values.length, { maxByteLength: 64 }));
        growable.set(values);
        return growable;
      },
      (values) => device.tensorFrom("i32", [values.length], values),
      (values) =>
        counting(device, "i32", [20])
          .slice(3, 3 + values.length)
          .copyFrom(values),
    ];
    for (const form of forms) {
      const given = Object.fromEntries(names.map((argument) => [argument, form(args[argument] as number[])]));
      device.run(makeOp(name, { ...args, ...given }));
      using plan = device.plan((pass) => addOp(pass, name, { ...args, ...given }));
      plan.run();
    }
    device.wait();
  });

  test("a detached index array is refused, not read as an empty one", () => {
    const args = sound();
    for (const argument of ["readSlots", "writeSlots"]) {
      if (!(argument in args)) continue;
      const array = Int32Array.from(args[argument] as number[]);
      array.buffer.transfer(0);
      expect(thrownBy(() => device.run(makeOp(name, { ...args, [argument]: array })))).toMatchObject({ code: "disposed", argument });
    }
  });

  test("index data are read when the op is encoded", () => {
    const args = sound();
    if (!("writeSlots" in args)) return;
    const writeSlots = Int32Array.from(args["writeSlots"] as number[]);
    const op = makeOp(name, { ...args, writeSlots });
    writeSlots.fill(99);
    expect(thrownBy(() => device.run(op)).code).toBe("range");
    writeSlots.set(args["writeSlots"] as number[]);
    device.run(op);
    writeSlots.fill(99); // no effect on the encoded op
    device.wait();
  });
});

test("index arrays of any length are borrowed whole", () => {
  for (const count of [4096, 5000, 30_000]) {
    const pool = counting(device, "f32", [count, 1]);
    const rotated = Int32Array.from({ length: count }, (_, i) => (i + 1) % count);
    device.run(makeOp("copySlots", { pool, readSlots: rotated, writeSlots: rotated.map((_, i) => i) }));
    device.wait();
    expect([pool.data[0], pool.data[count - 2], pool.data[count - 1]]).toEqual([1, count - 1, 0]);
  }
});

test("the constructor is not a way to make an op", () => {
  expect(thrownBy(() => Reflect.construct(Op, ["linear", {}, () => {}])).code).toBe("invalid-argument");
});

test("unknown members of nested arguments are refused by their path", () => {
  const args = soundArguments.gatedDelta(device);
  const checkpoints = { offsets: [0, 1, 1], tokens: [1], slots: [2] };
  expect(thrownBy(() => makeOp("gatedDelta", { ...args, checkpoints: { ...checkpoints, token: [1] } }))).toMatchObject({
    code: "invalid-argument", op: "gatedDelta", argument: "checkpoints.token", expected: "one of offsets, tokens, slots",
  });
  const { records, ...commit } = soundArguments.commitGatedDelta(device) as { records: object };
  expect(thrownBy(() => makeOp("commitGatedDelta", { ...commit, records: { ...records, value: 1 } }))).toMatchObject({
    code: "invalid-argument", op: "commitGatedDelta", argument: "records.value", expected: "one of key, delta, decay",
  });
});

test("a batch whose cuSeqlens is missing is told so", () => {
  const { cuSeqlens: _, ...args } = soundArguments.gatedDelta(device);
  expect(thrownBy(() => device.run(makeOp("gatedDelta", args)))).toMatchObject({
    code: "invalid-argument", op: "gatedDelta", argument: "cuSeqlens",
    expected: "3 offsets for the 2 sequences of readSlots", received: "none, which means one sequence",
  });
  const { readSlots: __, ...writing } = args as { readSlots: unknown };
  expect(thrownBy(() => device.run(makeOp("gatedDelta", writing)))).toMatchObject({
    argument: "cuSeqlens", expected: "3 offsets for the 2 sequences of writeSlots",
  });
  // Slots that disagree with each other are a different mistake.
  expect(thrownBy(() => device.run(makeOp("gatedDelta", { ...args, writeSlots: [0] })))).toMatchObject({
    code: "shape", argument: "readSlots", expected: "1 slots, one a sequence", received: "2",
  });
});

test("shapes, dtypes and strides are told in the words of the API", () => {
  const tensor = (shape: readonly number[], dtype: DType = "f32") => device.tensor(dtype, shape);
  const said = (name: OpName, change: object) => {
    const { argument, expected, received } = thrownBy(() => device.run(makeOp(name, { ...soundArguments[name](device), ...change })));
    return [argument, expected, received];
  };
  expect(said("gatedDelta", { query: tensor([5, 8]) })).toEqual(["query", "[tokens, keyHeads, keyDim]", "[5, 8]"]);
  expect(said("gatedDelta", { out: tensor([5, 2, 8]) })).toEqual([
    "out", "[tokens, valueHeads, valueDim] = [5, 2, 16]", "[5, 2, 8]",
  ]);
  expect(said("gatedDelta", { state: tensor([3, 2, 8, 16]) })).toEqual([
    "state", "[slots, valueHeads, valueDim, keyDim] = [3, 2, 16, 8]", "[3, 2, 8, 16]",
  ]);
  expect(said("gatedDelta", { query: tensor([5, 1, 8], "i32") })).toEqual(["query", "f32, f16 or bf16", "i32"]);
  expect(said("causalConv1d", { out: tensor([5, 48], "bf16") })).toEqual(["out", "f32", "bf16"]);
  expect(said("gatedDelta", { aLog: tensor([4]).view({ shape: [2], strides: [2] }) })).toEqual([
    "aLog", "a contiguous tensor", "strides [2] for shape [2]",
  ]);
  expect(said("gatedDeltaStep", { gate: tensor([3, 2]) })).toEqual(["gate", "[sequences, valueHeads] = [2, 2]", "[3, 2]"]);
  expect(said("gatedDeltaNetInplace", { k: tensor([3, 2, 1, 8]) })).toEqual(["k", "[B, T, Hk, S] = [2, 3, 1, 8]", "[3, 2, 1, 8]"]);
  expect(said("gatedDelta", { gateForm: "log" })).toEqual(["aLog", "none with gateForm log", "a tensor"]);
  expect(said("gatedDelta", { gateForm: "decay", gateBound: -2 })[1]).toBe("none with gateForm decay");
});
