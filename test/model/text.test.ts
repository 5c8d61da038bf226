/** Text of models: tokenizers, detokenisation as tokens arrive, chat templates, and folders that are wrong. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { FileError, UnsupportedError } from "../../lib/errors.ts";
import { byteCharacters, bytesOfToken } from "../../lib/model/text/byte-level.ts";
import { ChatTemplate } from "../../lib/model/text/chat-template.ts";
import { ModelText } from "../../lib/model/text/model-text.ts";
import { Tokenizer } from "../../lib/model/text/tokenizer.ts";
import { thrownBy } from "../support/devices.ts";

const models = join(import.meta.dir, "../golden/models");
const limits = { vocabSize: 512, eosTokens: [2, 0] };
const folders: string[] = [];
afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));

type Json = Record<string, any>;

/** A copy of a golden folder's text files, changed. */
function folderWith(change: (tokenizer: Json, config: Json) => void, files: Readonly<Record<string, string | Uint8Array>> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-text-"));
  folders.push(folder);
  const read = (name: string): Json => JSON.parse(readFileSync(join(models, "qwen3_5-bf16", name), "utf8"));
  const tokenizer = read("tokenizer.json");
  const config = read("tokenizer_config.json");
  change(tokenizer, config);
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(config));
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  return folder;
}

/** Byte-level BPE by its definition: the pair of lowest rank is merged, the leftmost first, until no pair has a rank. */
function plainBpe(tokenizer: Json, piece: string): number[] {
  const ranks = new Map((tokenizer["model"].merges as [string, string][]).map((pair, i) => [pair.join(" "), i]));
  const parts = [...new TextEncoder().encode(piece)].map((byte) => byteCharacters[byte]!);
  for (;;) {
    let best = -1;
    let bestRank = Infinity;
    for (let i = 0; i + 1 < parts.length; i++) {
      const rank = ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
      if (rank < bestRank) [best, bestRank] = [i, rank];
    }
    if (best < 0) return parts.map((part) => tokenizer["model"].vocab[part]);
    parts.splice(best, 2, parts[best]! + parts[best + 1]!);
  }
}

const patterns: Readonly<Record<string, RegExp>> = {
  "qwen3_5-bf16": /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu,
  "qwen3_5-mlx-4bit":
    /(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+/gu,
};

const words = ["the", " attention", "I'LL", "don't", " é", "e\u0301", "日本", "🎉", "👩‍👩‍👧", " ", "\n", "\r\n", "\t", "3.14", "…", "a", "<|im_", "0", "\ufeff", "ſ"];
const texts = fc.array(fc.oneof(fc.constantFrom(...words), fc.string({ unit: "binary", maxLength: 4 })), { maxLength: 12 }).map((parts) => parts.join(""));

describe.each(Object.keys(patterns))("the tokenizer of %s", (name) => {
  const folder = join(models, name);
  const tokenizer = Tokenizer.load(folder, limits)!;
  const json: Json = JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8"));
  const normal = (text: string) => (json["normalizer"] === null ? text : text.normalize("NFC")).toWellFormed();

  test("its ids are those of byte-level BPE by definition, and decoding gives the text back", () => {
    fc.assert(
      fc.property(texts, (text) => {
        const ids = tokenizer.encode(text);
        const pieces = normal(text).match(patterns[name]!) ?? [];
        expect(ids).toEqual(pieces.flatMap((piece) => plainBpe(json, piece)));
        expect(tokenizer.decode(ids)).toBe(normal(text));
      }),
      { numRuns: 400, seed: 20260 },
    );
  });

  test("control tokens are found within a text, and appear in one only where asked for", () => {
    const text = "<|im_start|>user\nhi<|im_end|>";
    const ids = tokenizer.encode(text);
    expect([ids[0], ids.at(-1)]).toEqual([1, 2]);
    expect(tokenizer.decode(ids)).toBe("user\nhi");
    expect(tokenizer.decode(ids, { specialTokens: true })).toBe(text);
    expect([tokenizer.idOf("<|im_end|>"), tokenizer.idOf("user"), tokenizer.isSpecial(1), tokenizer.isSpecial(3)]).toEqual([2, undefined, true, false]);
    expect(tokenizer.encode("")).toEqual([]);
    expect(tokenizer.decode([])).toBe("");
  });

  test("text comes as tokens do: whole characters, nothing taken back, together the whole", () => {
    const some = fc.array(fc.nat({ max: limits.vocabSize + 10 }), { maxLength: 40 });
    const ids = fc.oneof(some, texts.map((text) => tokenizer.encode(text)));
    fc.assert(
      fc.property(ids, (tokens) => {
        const bytes = tokens.flatMap((id) => [...(id < tokenizer.size && !tokenizer.isSpecial(id) ? bytesOf(json, id) : [])]);
        const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
        const detokenizer = tokenizer.detokenizer();
        let given = "";
        for (const token of tokens) {
          const piece = detokenizer.push(token);
          expect(piece.isWellFormed()).toBe(true);
          given += piece;
          expect(whole.startsWith(given)).toBe(true);
        }
        expect(given + detokenizer.end()).toBe(whole);
        expect(tokenizer.decode(tokens)).toBe(whole);
      }),
      { numRuns: 400, seed: 20260 },
    );
  });

  test("a character waits for its last byte", () => {
    const ids = tokenizer.encode("𐍈");
    expect(ids.length).toBe(4); // no merge of its bytes: each is a token
    const detokenizer = tokenizer.detokenizer();
    expect(ids.map((id) => detokenizer.push(id))).toEqual(["", "", "", "𐍈"]);
    expect(detokenizer.end()).toBe("");
    expect([...ids.slice(0, 3).map((id) => detokenizer.push(id)), detokenizer.end()]).toEqual(["", "", "", "\ufffd"]);
    expect(detokenizer.push(ids[0]!) + detokenizer.push(tokenizer.encode("a")[0]!)).toBe("\ufffda");
  });

  test("wrong arguments are refused", () => {
    const wrong: (() => unknown)[] = [
      () => tokenizer.encode(1 as never),
      () => tokenizer.encode("", { addSpecialTokens: 1 as never }),
      () => tokenizer.decode("" as never),
      () => tokenizer.decode([0.5]),
      () => tokenizer.decode([-1]),
      () => tokenizer.decode([], { specialTokens: 0 as never }),
    ];
    for (const run of wrong) expect(["invalid-argument", "range"]).toContain(thrownBy(run).code);
  });
});

function bytesOf(json: Json, id: number): Uint8Array {
  const vocab = json["model"].vocab as Record<string, number>;
  return bytesOfToken(Object.keys(vocab).find((token) => vocab[token] === id)!);
}

describe("tokenizers that do not fit", () => {
  const cases: [name: string, change: (tokenizer: Json, config: Json) => void, kind: typeof FileError | typeof UnsupportedError, words: RegExp][] = [
    ["an id beyond the vocabulary", ({ model }) => (model.vocab["zz"] = 512), FileError, /"zz".*0\.\.511.*512/],
    ["an added token beyond it", ({ added_tokens: added }) => added.push({ id: 600, content: "<x>" }), FileError, /"<x>".*600/],
    ["an id below 0", ({ model }) => (model.vocab["zz"] = -1), FileError, /"zz".*-1/],
    ["a fraction", ({ model }) => (model.vocab["zz"] = 1.5), FileError, /1\.5/],
    ["two tokens of one id", ({ model }) => (model.vocab["zz"] = 9), FileError, /"zz".*9/],
    ["a token of two ids", ({ added_tokens: added }) => (added[1].id = 500), FileError, /im_start.*1 in model.vocab and 500/],
    ["a byte without a token", ({ model }) => delete model.vocab["!"], FileError, /byte 33/],
    ["no token for the end", (tokenizer) => {
      delete tokenizer["model"].vocab["<|im_end|>"];
      tokenizer["added_tokens"].splice(2, 1);
    }, FileError, /id 2/],
    ["an added token of another kind", ({ added_tokens: added }) => added.push(null), FileError, /added_tokens\[3\]/],
    ["no model", (tokenizer) => delete tokenizer["model"], FileError, /model: an object/],
    ["no vocabulary", ({ model }) => delete model.vocab, FileError, /model\.vocab/],
    ["no merges", ({ model }) => delete model.merges, FileError, /model\.merges/],
    ["merges of another kind", ({ model }) => (model.merges = [1]), FileError, /model\.merges\[0\]: two tokens, got 1/],
    ["an unknown pre-tokenizer", (tokenizer) => (tokenizer["pre_tokenizer"] = { type: "None such" }), FileError, /None such/],
    ["a unigram model", ({ model }) => (model.type = "Unigram"), UnsupportedError, /"BPE".*"Unigram"/],
    ["another decoder", (tokenizer) => (tokenizer["decoder"] = { type: "Metaspace" }), UnsupportedError, /"ByteLevel".*"Metaspace"/],
    ["suffixes", ({ model }) => (model.end_of_word_suffix = "</w>"), UnsupportedError, /end_of_word_suffix/],
  ];
  test.each(cases)("%s", (_, change, kind, words) => {
    const folder = folderWith(change);
    const error = thrownBy(() => Tokenizer.load(folder, limits));
    expect(error).toBeInstanceOf(kind);
    expect(error.message).toMatch(words);
    expect(error.message).toContain(join(folder, "tokenizer.json"));
  });

  test("a vocabulary of a size that no model has", () => {
    const folder = folderWith(() => {});
    for (const vocabSize of [0, 1.5, Infinity, 2 ** 40]) expect(thrownBy(() => Tokenizer.load(folder, { ...limits, vocabSize })).message).toMatch(/limits\.vocabSize: expected an integer in 1\.\.16777216, got /);
  });

  test("files that are no JSON objects, no UTF-8, or folders", () => {
    for (const content of ["", "[]", "{", "null", Uint8Array.of(0x22, 0xff, 0x22)]) {
      const folder = folderWith(() => {}, { "tokenizer.json": content });
      expect(thrownBy(() => Tokenizer.load(folder, limits))).toBeInstanceOf(FileError);
      const other = folderWith(() => {}, { "tokenizer_config.json": content });
      expect(thrownBy(() => Tokenizer.load(other, limits))).toBeInstanceOf(FileError);
    }
    const folder = mkdtempSync(join(tmpdir(), "gated-delta-text-"));
    folders.push(folder);
    mkdirSync(join(folder, "tokenizer.json"));
    expect(thrownBy(() => Tokenizer.load(folder, limits)).message).toContain("a directory");
  });

  test("a folder without one", () => {
    const text = new ModelText(join(models, "none"), limits);
    expect(thrownBy(() => text.tokenizer).message).toContain("token ids");
    expect(thrownBy(() => text.chat([])).code).toBe("unsupported");
    expect(thrownBy(() => text.encode("a"))).toBeInstanceOf(UnsupportedError);
  });
});

describe("chat templates", () => {
  const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "Hi" }];
  const written = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n";
  const withTemplate = (template: unknown, files: Record<string, string> = {}) =>
    ChatTemplate.load(folderWith((_, config) => (config["chat_template"] = template), files))!;

  test.each(Object.keys(patterns))("%s: from its file or its configuration", (name) => {
    const template = ChatTemplate.load(join(models, name))!;
    expect(template.render(messages)).toBe(`${written}<|im_start|>assistant\n`);
    expect(template.render(messages, { addGenerationPrompt: false })).toBe(written);
    const text = new ModelText(join(models, name), limits);
    expect(text.tokenizer.decode(text.chat(messages), { specialTokens: true })).toBe(template.render(messages));
  });

  test("the file goes before the configuration; a list has names", () => {
    expect(withTemplate("config", { "chat_template.jinja": "file" }).render([])).toBe("file");
    const list = withTemplate([{ name: "default", template: "plain" }, { name: "tool_use", template: "{{ tools[0].name }}" }]);
    expect(list.names).toEqual(["default", "tool_use"]);
    expect(list.render([])).toBe("plain");
    expect(list.render([], { template: "tool_use", tools: [{ name: "search" }] })).toBe("search");
    expect(thrownBy(() => list.render([], { template: "rag" })).message).toContain('"default" | "tool_use"');
  });

  test("special tokens and the caller's values", () => {
    const template = withTemplate("{{ eos_token }}|{{ think }}|{{ messages[0].extra.n }}|{{ tools is defined }}");
    expect(template.render([{ role: "user", content: "", extra: { n: 3 } }], { variables: { think: "yes" } })).toBe("<|im_end|>|yes|3|True");
    const folder = folderWith((_, config) => Object.assign(config, { chat_template: "{{ bos_token }}", bos_token: { content: "<s>" } }));
    expect(ChatTemplate.load(folder)!.render([])).toBe("<s>");
  });

  test("what a template refuses, is not, or is given", () => {
    const refusing = withTemplate("{{ raise_exception('roles must alternate') }}");
    expect(thrownBy(() => refusing.render(messages)).message).toContain("roles must alternate");
    expect(thrownBy(() => withTemplate("{% for %}").render([]))).toBeInstanceOf(FileError);
    for (const wrong of [5, {}, [{ name: "a" }], [null]]) {
      const folder = folderWith((_, config) => (config["chat_template"] = wrong));
      expect(thrownBy(() => ChatTemplate.load(folder))).toBeInstanceOf(FileError);
    }
    expect(ChatTemplate.load(folderWith((_, config) => delete config["chat_template"]))).toBeUndefined();
    const plain = withTemplate("{{ messages[0].content }}");
    const circle: Json = { role: "user" };
    circle["content"] = circle;
    const values: unknown[] = [null, {}, [null], [{}], [{ role: 1 }], [{ role: "user" }], [{ role: "user", contents: "Hi" }], [circle], [{ role: "user", content: 1n }], [{ get role() { throw new Error("x"); } }]];
    for (const value of values) expect(thrownBy(() => plain.render(value as never)).code).toBe("invalid-argument");
    const options: unknown[] = [null, 1, { addGenerationPrompt: 1 }, { tools: {} }, { tools: [5] }, { tools: [[]] }, { template: 1 }, { variables: [] }, { other: 1 }];
    for (const value of options) expect(thrownBy(() => plain.render([], value as never)).code).toBe("invalid-argument");
    for (const variables of [{ messages: [] }, { tools: [] }, { add_generation_prompt: false }, { a: () => {} }, { a: Symbol() }]) {
      expect(thrownBy(() => plain.render([], { variables }))).toMatchObject({ code: "invalid-argument", argument: "variables" });
    }
    const deep: Json = {};
    for (let i = 0, at = deep; i < 30_000; i++) at = at["a"] = {} as Json;
    for (const value of [circle, deep]) {
      const expected = "values that nest at most 5000 deep";
      expect(thrownBy(() => plain.render([], { tools: [value] }))).toMatchObject({ code: "invalid-argument", argument: "tools", expected });
      expect(thrownBy(() => plain.render([], { variables: { value } }))).toMatchObject({ code: "invalid-argument", argument: "variables", expected });
      const messages = [{ role: "user", content: "" }, { role: "user", content: "", value }];
      expect(thrownBy(() => plain.render(messages))).toMatchObject({ code: "invalid-argument", argument: "messages[1].value", expected: "a value that nests at most 5000 deep" });
    }
  });
});
