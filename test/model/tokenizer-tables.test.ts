/** The tables of tokenizers: a scan gives those of JSON.parse, and the library the ids that it gives with its own. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { FileError } from "../../lib/errors.ts";
import { byteCharacters } from "../../lib/model/text/byte-level.ts";
import { Encoder } from "../../lib/model/text/encoder.ts";
import { addMerge, scanTokenizer } from "../../lib/model/text/scan-tables.ts";
import { TextTable, separator } from "../../lib/model/text/text-table.ts";
import { readTables } from "../../lib/model/text/tokenizer-tables.ts";
import { Tokenizer } from "../../lib/model/text/tokenizer.ts";
import { readVocabulary } from "../../lib/model/text/vocabulary.ts";
import { thrownBy } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { giveTokenizer } from "../../bench/model/large-tokenizer.ts";

type Json = Record<string, any>;
const { folder: root, newPath } = scratch();
const golden = join(import.meta.dir, "../golden/models");
const library = require("@huggingface/tokenizers") as { Tokenizer: new (json: object, config: object) => { encode(text: string, options: object): { ids: number[] } } };

const word = fc.oneof(fc.string({ unit: fc.constantFrom("a", "b", "Ġ", '"', "\\", ",", " ", "[", "]", "{", "}", ":", "1", "\n", "\u0000", "é", "日", "𐍈", "\ufeff"), maxLength: 5 }), fc.constantFrom("vocab", "merges", "__proto__", "constructor", "12", ""));

describe("a table of texts", () => {
  test("finds what a map finds", () => {
    fc.assert(
      fc.property(fc.array(word), fc.array(fc.oneof(word, fc.string({ unit: "binary" }), fc.constantFrom("\ud800", "a\udc00", "\ufffd"))), (texts, others) => {
        const bytes = Buffer.from(texts.join(""));
        const table = new TextTable(bytes);
        let at = 0;
        for (const text of texts) table.add(at, (at += Buffer.byteLength(text)));
        const repeated = texts.findIndex((text, place) => texts.indexOf(text) < place);
        expect(table.index()).toBe(repeated < 0 ? undefined : repeated);
        const map = new Map(texts.map((text, place) => [text, place]));
        for (const text of [...texts, ...others, texts.join("")]) expect(table.find(text)).toBe(map.get(text));
        expect(texts.map((_, place) => table.at(place))).toEqual(texts);
      }),
      { numRuns: 300, seed: 20261 },
    );
  });

  test("keeps the two parts of a merge apart", () => {
    const bytes = Buffer.from("a bcab c x y zlone");
    const merges = new TextTable(bytes);
    for (const [start, end] of [[0, 4], [4, 8], [9, 14], [14, 18]] as const) addMerge(merges, bytes, start, end);
    merges.index();
    expect([merges.find("a", "bc"), merges.find("ab", "c"), merges.find("x", "y"), merges.find("a b", "c"), merges.find("lone"), merges.find("lone", ""), merges.find("abc")]).toEqual([0, 1, 2, undefined, 3, undefined, undefined]);
    expect(bytes[1]).toBe(separator);
  });
});

/** A file with blanks and escapes other than those that JSON.stringify writes. */
function written(json: Json, style: { readonly indent: number; readonly ascii: boolean }): Buffer {
  const text = JSON.stringify(json, undefined, style.indent);
  return Buffer.from(style.ascii ? text.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`) : text);
}

/** The result of JSON.parse, in the form of tables. */
function plain(bytes: Buffer): { readonly json: Json; readonly tokens: [string, unknown][]; readonly merges: Map<string, number> } {
  const json = JSON.parse(new TextDecoder().decode(bytes)) as Json;
  const { vocab, merges, ...model } = json["model"] as { vocab: Json; merges: (string | string[])[] };
  const pairs = merges.map((merge) => (typeof merge === "string" ? merge.split(" ", 2) : merge));
  return { json: { ...json, model }, tokens: Object.entries(vocab), merges: new Map(pairs.map((pair, rank) => [JSON.stringify(pair), rank])) };
}

function expectScanned(bytes: Buffer): boolean {
  const scanned = scanTokenizer(Uint8Array.from(bytes));
  if (scanned === undefined) return false;
  const { json, tokens, merges } = plain(bytes);
  expect(scanned.json).toEqual(json);
  const found = Array.from({ length: scanned.tokens.length }, (_, place) => [scanned.tokens.at(place), scanned.ids[place]] as [string, unknown]);
  expect(new Map(found)).toEqual(new Map(tokens));
  expect(found.length).toBe(tokens.length);
  for (const [key, rank] of merges) {
    const pair = JSON.parse(key) as [string, string];
    if (pair.length === 2) expect(scanned.merges.find(...pair)).toBe(rank);
  }
  return true;
}

const tokenizerJson = fc.record({
  vocab: fc.uniqueArray(word),
  merges: fc.oneof(fc.array(fc.tuple(word, word)), fc.array(fc.tuple(word, word).map((pair) => pair.join(" ")))),
  content: word,
  first: fc.boolean(),
  style: fc.record({ indent: fc.constantFrom(0, 1, 2), ascii: fc.boolean() }),
}).map(({ vocab, merges, content, first, style }) => {
  const model = { type: "BPE", ...(first ? { merges } : {}), vocab: Object.fromEntries(vocab.map((token, id) => [token, 3 * id])), ...(first ? {} : { merges }), unk_token: null };
  return written({ version: "1.0", added_tokens: [{ id: 0, content }], model, decoder: { type: "ByteLevel", vocab: content } }, style);
});

describe("a file that is scanned", () => {
  test("has what JSON.parse finds in it", () => {
    fc.assert(fc.property(tokenizerJson, (bytes) => expect(expectScanned(bytes)).toBe(true)), { numRuns: 400, seed: 20262 });
  });

  test("if it was changed anywhere, is left to JSON.parse or has what that finds", () => {
    let [read, left] = [0, 0];
    const change = fc.record({ at: fc.nat(), byte: fc.oneof(fc.nat(255), fc.constantFrom(...Buffer.from('"\\{}[]:,0 -.eu'))), kind: fc.constantFrom("put", "insert", "remove", "cut") });
    fc.assert(
      fc.property(tokenizerJson, fc.array(change, { minLength: 1, maxLength: 3 }), (bytes, changes) => {
        let changed = bytes;
        for (const { at, byte, kind } of changes) {
          const place = at % (changed.length + 1);
          const rest = { put: place + 1, insert: place, remove: place + 1, cut: changed.length }[kind]!;
          changed = Buffer.concat([changed.subarray(0, place), ...(kind === "put" || kind === "insert" ? [Buffer.of(byte)] : []), changed.subarray(rest)]);
        }
        // A file that JSON.parse refuses throws here.
        if (expectScanned(changed)) read++;
        else left++;
      }),
      { numRuns: 3000, seed: 20263 },
    );
    expect([read > 100, left > 1000]).toEqual([true, true]);
  });

  test.each(["qwen3_5-bf16", "qwen3_5-mlx-4bit", "olmo_hybrid"])("%s", (name) => {
    expect(expectScanned(readFileSync(join(golden, name, "tokenizer.json")))).toBe(true);
  });

  test("is left to JSON.parse where names occur twice or numbers have another form", () => {
    const of = (vocab: string, merges = "[]", more = "") => Buffer.from(`{"model":{"type":"BPE","vocab":${vocab},"merges":${merges}${more}},"decoder":{"type":"ByteLevel"}}`);
    expect(scanTokenizer(of('{"a":1,"b":2}', '["a b"]'))).toBeDefined();
    const others = [of('{"a":1,"a":2}'), of('{"a":1.0}'), of('{"a":1e1}'), of('{"a":-1}'), of('{"a":01}'), of('{"a":"b"}'), of('{"a":12345678901}'), of('{"a":1,}'), of("{"), of('{"\\ud800":1}'), of("{}", '["a b",["a","b"]]'), of("{}", '[["a"]]'), of("{}", '[["a","b","c"]]'), of("{}", "[1]"), of("{}", "[]", ',"vocab":{"b":1}'), of("{}", "[]", ',"merges":["a b"]'), Buffer.from("[]")];
    for (const bytes of others) expect([String(bytes), scanTokenizer(Uint8Array.from(bytes))]).toEqual([String(bytes), undefined]);
  });
});

describe("tables made by JSON.parse", () => {
  const read = (json: string) => {
    const path = join(root, "tokenizer.json");
    writeFileSync(path, json);
    return readTables("op", path)!;
  };
  const of = (vocab: string, merges: string) => `{"model":{"vocab":${vocab},"merges":${merges}},"decoder":{"type":"ByteLevel"}}`;

  test("are the same", () => {
    const { tokens, ids, merges, json } = read(of('{"a":1,"b":2,"a":3}', '[["a","b"],["b","a b"]]'));
    expect([tokens.find("a"), tokens.find("b"), Array.from(ids), json["model"]]).toEqual([0, 1, [3, 2], {}]);
    expect([merges.find("a", "b"), merges.find("b", "a b"), merges.find("b a", "b")]).toEqual([0, 1, undefined]);
    expect(read(of("{}", '["a b c"]')).merges.find("a", "b")).toBe(0);
  });

  test("are refused by name", () => {
    for (const [vocab, merges, words] of [['{"\\ud800":1}', "[]", /Unicode/], ["{}", '[["a","b"],7]', /merges\[1\]/], ["{}", '[["a",1]]', /merges\[0\]/], ["[]", "[]", /model\.vocab/], ["{}", "{}", /model\.merges/]] as const) {
      const error = thrownBy(() => read(of(vocab, merges)));
      expect(error).toBeInstanceOf(FileError);
      expect(error.message).toMatch(words);
    }
  });
});

describe("the library with our tables", () => {
  const texts = fc.array(fc.oneof(fc.constantFrom('"', "\\", '","', "the", " attention", "日本", "🎉", "\n", "\t", " ", "a", "<unk>"), fc.string({ unit: "binary", maxLength: 4 })), { maxLength: 12 }).map((parts) => parts.join(""));
  const ours = (json: Json, path: string) => {
    writeFileSync(path, JSON.stringify(json));
    const tables = readTables("op", path)!;
    return new Encoder(tables, {}, readVocabulary("op", path, tables, { vocabSize: 1000, eosTokens: [] }));
  };
  const same = (json: Json) => {
    const path = join(root, "tokenizer.json");
    const theirs = new library.Tokenizer(structuredClone(json), {});
    const own = ours(json, path);
    fc.assert(fc.property(texts, (text) => expect([...own.encode([{ text, special: true }], false)]).toEqual(theirs.encode(text, { add_special_tokens: false }).ids)), { numRuns: 400, seed: 20264 });
  };

  test("gives the ids that it gives with its own", () => {
    for (const name of ["qwen3_5-bf16", "qwen3_5-mlx-4bit"]) same(JSON.parse(readFileSync(join(golden, name, "tokenizer.json"), "utf8")));
  });

  test("also where the file leaves out the model's type, as old ones do", () => {
    const json: Json = JSON.parse(readFileSync(join(golden, "qwen3_5-bf16", "tokenizer.json"), "utf8"));
    const path = join(root, "tokenizer.json");
    const text = "the attention of the reader";
    const ids = ours(json, path).encode([{ text, special: true }], false);
    const { type: _, continuing_subword_prefix: __, ...model } = json["model"] as Json;
    expect(ours({ ...json, model }, path).encode([{ text, special: true }], false)).toEqual(ids);
  });

  const quoted = (more: Json, unknown: boolean): Json => {
    const merges: [string, string][] = [['"', ","], ['",', '"'], ["\\", "\\"], ["t", "h"], ["th", "e"], ["Ġ", "a"], ['\\', '"']];
    const characters = byteCharacters.filter((character) => character !== "q");
    const made = (unknown ? merges.slice(0, -1) : merges).map((pair) => pair.join(""));
    const vocab = Object.fromEntries([...characters, ...made, "<unk>"].map((token, id) => [token, id]));
    return { added_tokens: [{ id: 900, content: "q", special: false, normalized: false }], normalizer: null, post_processor: null, pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true }, decoder: { type: "ByteLevel" }, model: { type: "BPE", ...more, vocab: { ...vocab, q: 900 }, merges } };
  };
  const models = [{}, { unk_token: "<unk>" }, { unk_token: "<unk>", fuse_unk: true }, { ignore_merges: true }];

  test("also for tokens with quotes", () => {
    for (const more of models) same(quoted(more, false));
  });

  test("but not where a merge makes no token, as in the reference", () => {
    for (const more of models) {
      const error = thrownBy(() => ours(quoted(more, true), join(root, "tokenizer.json")));
      expect([error.code, error.message]).toEqual(["file", expect.stringContaining('expected merges that each make a token, got none for merge 6, "\\\\ \\""')]);
    }
    // The text of an added token may be the result of a merge.
    const { added_tokens, ...others } = quoted({}, true);
    expect(() => ours({ ...others, added_tokens: [...added_tokens, { id: 901, content: '\\"', special: false, normalized: false }] }, join(root, "tokenizer.json"))).not.toThrow();
  });
});

test("a tokenizer of words, with either form of merges, gives the ids that the library gives", () => {
  for (const pairs of [true, false]) {
    const folder = newPath("folder");
    mkdirSync(folder);
    writeFileSync(join(folder, "config.json"), JSON.stringify({ vocab_size: 5000, eos_token_id: [2, 0] }));
    giveTokenizer(folder, pairs);
    expect(expectScanned(readFileSync(join(folder, "tokenizer.json")))).toBe(true);
    const tokenizer = Tokenizer.load(folder, { vocabSize: 5000, eosTokens: [2, 0] })!;
    const theirs = new library.Tokenizer(JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8")), {});
    const text = readFileSync(join(import.meta.dir, "../../README.md"), "utf8").slice(0, 3000);
    expect(tokenizer.encode(text)).toEqual(theirs.encode(text, { add_special_tokens: false }).ids);
    expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
  }
});
