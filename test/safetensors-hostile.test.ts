import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readFileSync, statSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FileError } from "../lib/errors.ts";
import { openSafetensors, writeSafetensors } from "../lib/checkpoint/safetensors.ts";
import { oneTensor, refusal, scratch } from "./support/files.ts";

const { folder, newPath, fileOf } = scratch();

describe("a bad file is refused by name", () => {
  const tensor = (fields: string) => `{"a":{${fields}}}`;
  const u8 = (shape: string, offsets: string) => tensor(`"dtype":"U8","shape":${shape},"data_offsets":${offsets}`);
  const cases: [what: string, header: string | Uint8Array, dataBytes: number, says: string, claimed?: bigint][] = [
    ["an empty header", "", 0, "the header to be JSON"],
    ["no object", "[]", 0, "the header to be an object"],
    ["a header that ends early", oneTensor.slice(0, -1), 4, "the header to be JSON"],
    ["text after the header", `${oneTensor} x`, 4, "a syntax error"],
    ["a header length beyond the file", oneTensor, 4, "a file of at least", 1000n],
    ["a header length beyond the limit", oneTensor, 4, "at most 100000000", 2n ** 40n],
    ["a header length beyond 2^63", oneTensor, 4, "at most 100000000", 2n ** 64n - 1n],
    ["bytes that are no UTF-8", new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]), 0, "UTF-8"],
    ["a byte order mark", `\uFEFF${oneTensor}`, 4, "a syntax error"],
    ["a lone surrogate", `{"\\ud800":{}}`, 0, "well-formed Unicode"],
    ["a bad escape", `{"\\x":{}}`, 0, "Invalid escape character"],
    ["a raw newline in a name", `{"a\n":{}}`, 0, "a syntax error"],
    ["the same name twice", `${oneTensor.slice(0, -1)},${oneTensor.slice(1)}`, 4, "twice"],
    ["the same name twice, once escaped", `${oneTensor.slice(0, -1)},${oneTensor.slice(1).replace('"a"', '"\\u0061"')}`, 4, "twice"],
    [
      "the same name twice, both for the same bytes",
      `{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`,
      4,
      '"a" twice',
    ],
    ["the same name twice, both empty", `${u8("[0]", "[0,0]").slice(0, -1)},${u8("[0,3]", "[0,0]").slice(1)}`, 0, '"a" twice'],
    ["the same field twice", tensor(`"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]`), 0, "twice"],
    ["a tensor that is no object", `{"a":3}`, 0, 'tensor "a" to be an object'],
    ["no dtype", tensor(`"shape":[0],"data_offsets":[0,0]`), 0, "expected dtype"],
    ["no shape", tensor(`"dtype":"U8","data_offsets":[0,0]`), 0, "expected shape"],
    ["no offsets", tensor(`"dtype":"U8","shape":[0]`), 0, "expected data_offsets"],
    ["an unknown dtype", tensor(`"dtype":"F7","shape":[0],"data_offsets":[0,0]`), 0, '"F7"'],
    ["a dtype of another's prototype", tensor(`"dtype":"toString","shape":[0],"data_offsets":[0,0]`), 0, '"toString"'],
    ["a dtype that is no string", tensor(`"dtype":1,"shape":[0],"data_offsets":[0,0]`), 0, "to be one of BOOL"],
    ["a negative size", u8("[-1]", "[0,4]"), 4, "whole number"],
    ["a fraction", u8("[1.5]", "[0,4]"), 4, "whole number"],
    ["a negative zero", u8("[-0]", "[0,0]"), 0, "whole number"],
    ["a leading zero", u8("[04]", "[0,4]"), 4, "a syntax error"],
    ["a size of 2^53", u8(`[${2 ** 53}]`, "[0,4]"), 4, "whole number"],
    ["a huge number", u8(`[${"9".repeat(500)}]`, "[0,4]"), 4, "whole number"],
    ["a size that is null", u8("[null]", "[0,4]"), 4, "whole number"],
    ["a product beyond 2^53", u8(`[${2 ** 40},${2 ** 40}]`, "[0,4]"), 4, "2^53"],
    ["a product beyond 2^53 before a zero", u8(`[${2 ** 40},${2 ** 40},0]`, "[0,0]"), 0, "2^53"],
    ["bits beyond 2^53", tensor(`"dtype":"F64","shape":[${2 ** 50}],"data_offsets":[0,4]`), 4, "2^53"],
    ["half a byte", tensor(`"dtype":"F4","shape":[3],"data_offsets":[0,2]`), 2, "whole bytes"],
    ["100 dimensions", u8(`[${Array(100).fill(1).join(",")}]`, "[0,1]"), 1, "at most 64"],
    ["a size that is not the shape's", u8("[5]", "[0,4]"), 4, "5 bytes"],
    ["a size that is not the dtype's", tensor(`"dtype":"F32","shape":[4],"data_offsets":[0,4]`), 4, "16 bytes"],
    ["offsets the wrong way round", u8("[0]", "[4,0]"), 4, "begin <= end"],
    ["one offset", u8("[0]", "[0]"), 0, "[begin, end]"],
    ["three offsets", u8("[0]", "[0,0,0]"), 0, "[begin, end]"],
    ["data beyond the file", u8("[5]", "[0,5]"), 4, "within the file"],
    ["data before it all", u8("[4]", "[1,5]"), 5, "a hole"],
    ["data left over", u8("[4]", "[0,4]"), 5, "4 bytes of data"],
    ["data where no tensor is", "{}", 1, "0 bytes of data"],
    [
      "a hole",
      `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`,
      5,
      "a hole",
    ],
    [
      "an overlap",
      `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`,
      3,
      "overlapping",
    ],
    [
      "an empty tensor inside another",
      `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}}`,
      2,
      "overlapping",
    ],
    ["metadata that is no object", `{"__metadata__":[]}`, 0, "__metadata__ to be an object"],
    ["metadata that is no text", `{"__metadata__":{"x":1}}`, 0, '__metadata__ "x" to be a string'],
    ["metadata in metadata", `{"__metadata__":{"x":{"y":"z"}}}`, 0, "to be a string"],
    ["metadata twice", `{"__metadata__":{},"__metadata__":{}}`, 0, "twice"],
    ["a million brackets", tensor(`"x":${"[".repeat(1_000_000)}`), 0, "at most 64 levels"],
    ["a million arrays side by side", tensor(`"x":[${"[],".repeat(1_000_000)}0]`), 0, "arrays and objects"],
    ["a million objects side by side", tensor(`"x":[${'{"a":1},'.repeat(1_000_000)}0]`), 0, "arrays and objects"],
    ["a million objects", tensor(`"x":${`{"a":`.repeat(1_000_000)}`), 0, "at most 64 levels"],
    ["brackets that do not match", tensor(`"x":[1}`), 0, "a syntax error"],
    ["a word that is no value", tensor(`"x":nul`), 0, "a syntax error"],
    ["a comma too many", tensor(`"x":[1,]`), 0, "a syntax error"],
    ["a comma after the last member", `{"a":{},}`, 0, "a syntax error"],
  ];
  for (const [what, header, dataBytes, says, claimed] of cases) {
    test(what, () => expect(refusal(fileOf(header, dataBytes, claimed), openSafetensors)).toContain(says));
  }

  test("files too short for a header's length", () => {
    for (let size = 0; size < 8; size++) {
      const path = newPath();
      writeFileSync(path, new Uint8Array(size));
      expect(refusal(path, openSafetensors)).toContain(size === 0 ? "an empty file" : "at least 8 bytes");
    }
  });

  const bytes = (...codes: number[]) => Uint8Array.from({ length: 100 }, (_, i) => codes[i] ?? 0);
  const foreign: [what: string, content: string | Uint8Array, says: string][] = [
    ["GGUF", bytes(0x47, 0x47, 0x55, 0x46, 3), "a GGUF file"],
    ["a git-lfs pointer", `version https://git-lfs.github.com/spec/v1\noid sha256:${"0".repeat(64)}\nsize 9\n`, "a git-lfs pointer"],
    ["a zip archive", bytes(0x50, 0x4b, 3, 4, 0, 0, 8, 8), "PyTorch"],
    ["a pickle", bytes(0x80, 2, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9), "PyTorch"],
    ["a NumPy array", bytes(0x93, ...Buffer.from("NUMPY"), 1, 0, 0x76), "NumPy"],
    ["HDF5", bytes(0x89, ...Buffer.from("HDF\r\n\x1a\n")), "HDF5"],
    ["gzip", bytes(0x1f, 0x8b, 8, 0, 1, 2, 3, 4), "gzip"],
    ["a web page", "<!DOCTYPE html><html><body>401</body></html>", "a web page"],
    ["a README", "# Qwen3.5\n\nThis model …", 'text that begins with "# Qwen3.5"'],
    ["text with a character cut off", `${"é".repeat(31)}x€€`, 'text that begins with "éé'],
    ["short text", "hi\n", 'text that begins with "hi"'],
    ["JSON", `{"model_type":"qwen3_5"}`, "text that begins with"],
    ["unknown bytes", bytes(1, 2, 3, 4, 5, 6, 7, 8), "a header of at most"],
  ];
  test.each(foreign)("%s is named", (_, content, says) => {
    const path = newPath();
    writeFileSync(path, content);
    expect(refusal(path, openSafetensors)).toContain(says);
  });

  test("what is no file", () => {
    expect(refusal(join(folder, "missing.safetensors"), openSafetensors)).toContain("no such file");
    expect(refusal(folder, openSafetensors)).toContain("a directory");
    expect(refusal("/dev/null", openSafetensors)).toContain("a device");
    expect(refusal("", openSafetensors)).toContain("no such file");
    expect(refusal("a\0b", openSafetensors)).toContain("expected a readable file");
    const loop = newPath();
    symlinkSync(loop, loop);
    expect(refusal(loop, openSafetensors)).toContain("ELOOP");
    for (const path of [undefined, null, 3, {}]) {
      expect(() => openSafetensors(path as unknown as string)).toThrow("openSafetensors: path: expected a string");
    }
  });

  test("a named pipe does not block", () => {
    const path = newPath();
    const pipe = Bun.spawnSync(["mkfifo", path]);
    if (pipe.exitCode !== 0) throw new Error("mkfifo failed");
    expect(refusal(path, openSafetensors)).toContain("pipe");
  });

  test("a file that shrinks after it was opened", () => {
    const path = fileOf(oneTensor, 4);
    using file = openSafetensors(path);
    truncateSync(path, statSync(path).size - 2);
    expect(() => file.read("a")).toThrow("the end of the file after 2");
  });

  test("every truncation of a sound file", () => {
    const path = newPath();
    writeSafetensors(path, {
      a: { dtype: "F32", shape: [2, 3], data: new Float32Array(6) },
      b: { dtype: "I8", shape: [3], data: new Int8Array(3) },
    });
    const whole = readFileSync(path);
    for (let size = 0; size < whole.length; size++) {
      writeFileSync(path, whole.subarray(0, size));
      refusal(path, openSafetensors);
    }
  });

  test("any change of bytes gives a file that reads or a FileError, nothing else", () => {
    const path = newPath();
    writeSafetensors(
      path,
      {
        "layer.weight": { dtype: "F32", shape: [2, 3], data: new Float32Array(6) },
        b: { dtype: "BF16", shape: [], data: new Uint16Array(1) },
      },
      { format: "pt" },
    );
    const whole = readFileSync(path);
    const marks = fc.constantFrom(...new TextEncoder().encode('{}[]:,"0123456789'));
    const change = fc.record({
      at: fc.nat({ max: whole.length - 1 }),
      byte: fc.oneof(fc.nat({ max: 255 }), marks),
    });
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 4 }), (changes) => {
        const damaged = new Uint8Array(whole);
        for (const { at, byte } of changes) damaged[at] = byte;
        writeFileSync(path, damaged);
        try {
          using file = openSafetensors(path);
          for (const name of file.names) expect(file.read(name)).toHaveLength(file.info(name).bytes);
        } catch (error) {
          if (!(error instanceof FileError)) throw error;
        }
      }),
      { numRuns: 300 },
    );
  });
});
