/** The tokenizers and chat templates of GGUF files. */
import { afterAll, describe, expect, test } from "bun:test";
import { dirname } from "node:path";
import { Device } from "../lib/index.ts";
import { ChatTemplate } from "../lib/model/text/chat-template.ts";
import { Tokenizer } from "../lib/model/text/tokenizer.ts";
import { LanguageModel } from "../lib/model.ts";
import { thrownBy } from "./support/devices.ts";
import { scratch } from "./support/files.ts";
import { ggufFiles, text, u32, valued } from "./support/gguf-cases.ts";
import type { Values } from "./support/gguf-cases.ts";
import { expectedTexts, ggufPath } from "./support/gguf-models.ts";
import { tinyTokens } from "./support/tiny-gguf.ts";

const fileOf = ggufFiles(scratch());
const device = Device.open({ backend: "cpu" });
afterAll(() => device[Symbol.dispose]());

test.each(["qwen35-q4_k_m", "qwen35-q8_0", "qwen35moe-q4_k_m"])("%s has the tokens that llama.cpp has", (name) => {
  const folder = dirname(ggufPath(name));
  const tokenizer = Tokenizer.load(folder, { vocabSize: 512, eosTokens: [2] })!;
  const texts = expectedTexts(folder);
  expect(texts.length).toBe(8);
  for (const [whole, ids] of texts) {
    expect(tokenizer.encode(whole)).toEqual([...ids]);
    expect(tokenizer.decode(ids, { specialTokens: true })).toBe(whole);
  }
  const rendered = ChatTemplate.load(ggufPath(name))!.render([{ role: "user", content: "hi" }]);
  expect(rendered).toBe("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
});

describe("the tokenizer", () => {
  const loaded = async (changes: Values) => await LanguageModel.load(device, fileOf(valued(changes)), { states: 1, pages: 1 });
  const id = (token: string) => tinyTokens.indexOf(token);

  test("merges, and knows control, user-defined and unused tokens", async () => {
    using model = await loaded({});
    const { tokenizer } = model.text;
    expect(tokenizer.encode("hello<tool><|im_end|>")).toEqual([id("hel"), id("l"), id("o"), id("<tool>"), 2]);
    expect(tokenizer.encode("<tool><|im_end|>", { specialTokens: "text" })).not.toContain(2);
    expect([tokenizer.isSpecial(2), tokenizer.isSpecial(id("<tool>"))]).toEqual([true, false]);
    expect(tokenizer.encode("[unused0]")).not.toContain(id("[unused0]"));
    expect(tokenizer.decode([id("hel"), id("[unused0]"), id("l")])).toBe("hell");
  });

  test("has qwen2's expression, which takes marks apart from letters", async () => {
    using model = await loaded({ "tokenizer.ggml.pre": text("qwen2") });
    using other = await loaded({});
    expect(model.text.encode("hello")).toEqual(other.text.encode("hello"));
    expect(model.text.tokenizer.decode(model.text.encode("e\u0301"))).toBe("e\u0301");
  });

  test("takes end tokens for control tokens whatever their type is, unless plain text becomes them", async () => {
    const types = (...others: readonly (readonly [string, number])[]): Values => ({ "tokenizer.ggml.token_type": { type: "i32s", value: tinyTokens.map((token) => others.find(([other]) => other === token)?.[1] ?? 1) } });
    for (const changes of [{ "tokenizer.ggml.token_type": undefined }, types(["<|im_end|>", 4], ["<|endoftext|>", 5])]) {
      using model = await loaded(changes);
      const { tokenizer } = model.text;
      expect(tokenizer.encode("l<|im_end|><|endoftext|>")).toEqual([id("l"), 2, 0]);
      expect([tokenizer.isSpecial(2), tokenizer.isSpecial(0), tokenizer.isSpecial(1)]).toEqual([true, true, false]);
      expect(tokenizer.encode("<|im_end|>", { specialTokens: "text" })).not.toContain(2);
    }
    using named = await loaded({ ...types(), "tokenizer.ggml.eot_token_id": u32(id("<tool>")) });
    expect([named.text.encode("<tool>"), named.text.tokenizer.isSpecial(id("<tool>"))]).toEqual([[id("<tool>")], true]);
    for (const plain of ["l", "hel"]) {
      using other = await loaded({ "tokenizer.ggml.eot_token_id": u32(id(plain)) });
      expect([other.text.encode(plain), other.text.tokenizer.isSpecial(id(plain))]).toEqual([[id(plain)], false]);
    }
  });

  test("loses no text to merges that make a control or user-defined token", async () => {
    const tokens = tinyTokens.map((token) => (token === "[unused0]" ? "<t" : token));
    using model = await loaded({
      "tokenizer.ggml.tokens": { type: "texts", value: tokens },
      "tokenizer.ggml.token_type": { type: "i32s", value: tokens.map((token) => (token === "<t" ? 4 : 1)) },
      "tokenizer.ggml.merges": { type: "texts", value: ["< t"] },
    });
    for (const specialTokens of ["parse", "text"] as const) {
      const ids = model.text.encode("a<tb", { specialTokens });
      expect(model.text.tokenizer.decode(ids, { specialTokens: true })).toBe("a<tb");
      expect(ids.includes(tokens.indexOf("<t"))).toBe(specialTokens === "parse");
    }
  });

  test("has no first or last token where the file's id is 2^32 - 1", async () => {
    const none = u32(2 ** 32 - 1);
    using model = await loaded({ "tokenizer.ggml.bos_token_id": none, "tokenizer.ggml.eos_token_id": none, "tokenizer.ggml.eot_token_id": u32(1) });
    expect(model.config.eosTokens).toEqual([1]);
    expect(model.text.encode("l", { addSpecialTokens: true })).toEqual([id("l")]);
  });

  test("adds its first and last token where it is asked to", async () => {
    using model = await loaded({ "tokenizer.ggml.add_bos_token": { type: "bool", value: true }, "tokenizer.ggml.bos_token_id": u32(1), "tokenizer.ggml.add_eos_token": { type: "bool", value: true } });
    expect(model.text.encode("l")).toEqual([id("l")]);
    expect(model.text.encode("l", { addSpecialTokens: true })).toEqual([1, id("l"), 2]);
  });

  test("has named templates", async () => {
    using model = await loaded({ "tokenizer.chat_template.tool_use": text("{{ eos_token }}!") });
    expect(model.text.template.names).toEqual(["default", "tool_use"]);
    expect(model.text.template.render([{ role: "user", content: "hi" }], { template: "tool_use" })).toBe("<|im_end|>!");
    expect(model.text.chat([{ role: "user", content: "l" }])[0]).toBe(1);
  });

  test("may be missing, and so may the template", async () => {
    using model = await loaded({ "tokenizer.ggml.model": text("none"), "tokenizer.chat_template": undefined });
    expect(model.text.hasTokenizer).toBe(false);
    expect(thrownBy(() => model.text.tokenizer).code).toBe("unsupported");
    expect(thrownBy(() => model.text.template).code).toBe("unsupported");
  });

  test.each<[what: string, changes: Values, code: string, mention: string]>([
    ["of another kind", { "tokenizer.ggml.model": text("llama") }, "unsupported", '"llama"'],
    ["of another expression", { "tokenizer.ggml.pre": text("gpt-2") }, "unsupported", '"gpt-2"'],
    ["of no expression", { "tokenizer.ggml.pre": undefined }, "unsupported", "tokenizer.ggml.pre"],
    ["of an unknown type of token", { "tokenizer.ggml.token_type": { type: "i32s", value: tinyTokens.map(() => 7) } }, "unsupported", "token_type[0]"],
    ["of too few types", { "tokenizer.ggml.token_type": { type: "i32s", value: [1] } }, "file", "token_type of 263 tokens"],
    ["of a merge that makes no token", { "tokenizer.ggml.merges": { type: "texts", value: ["h e", "z q"] } }, "file", 'merges that each make a token, got none for merge 1, "z q"'],
    ["of a merge that makes an unused token", { "tokenizer.ggml.merges": { type: "texts", value: ["[ unused0]"] } }, "file", 'none for merge 0, "[ unused0]"'],
    [
      "of a merge that makes a user-defined token of other text",
      {
        "tokenizer.ggml.tokens": { type: "texts", value: tinyTokens.map((token) => (token === "<tool>" ? "Ġh" : token)) },
        "tokenizer.ggml.token_type": { type: "i32s", value: tinyTokens.map((token) => (token === "<tool>" ? 4 : 1)) },
        "tokenizer.ggml.merges": { type: "texts", value: ["Ġ h"] },
      },
      "file",
      'none for merge 0, "Ġ h"',
    ],
    ["of a first token that it leaves out", { "tokenizer.ggml.add_bos_token": { type: "bool", value: true }, "tokenizer.ggml.bos_token_id": u32(2 ** 32 - 1) }, "file", "tokenizer.ggml.bos_token_id"],
    ["of no merges", { "tokenizer.ggml.merges": undefined }, "file", "tokenizer.ggml.merges"],
    ["of a token twice", { "tokenizer.ggml.tokens": { type: "texts", value: [...tinyTokens.slice(0, -1), "hel"] } }, "file", '"hel" twice'],
    ["of more tokens than the model", { "tokenizer.ggml.tokens": { type: "texts", value: [...tinyTokens, "x1", "x2"] } }, "file", "at most 263 elements"],
    ["of tokens that are numbers", { "tokenizer.ggml.tokens": { type: "i32s", value: [1] } }, "file", "an array of texts"],
  ])("%s is refused", async (_, changes, code, mention) => {
    using model = await loaded(changes);
    const error = thrownBy(() => model.text.tokenizer);
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(mention)]);
  });
});
