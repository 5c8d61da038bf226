/** Conversations rendered by the library, and their digests as oracle.py makes them. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { ChatTemplate } from "../../lib/model/text/chat-template.ts";
import { GatedDeltaError } from "../../lib/errors.ts";
import { conversationOf } from "./conversations.ts";
import type { Conversation } from "./conversations.ts";

export const seed = 18;
export const count = 2500;
export const block = 50;

/** A template's file, ready to render. */
export function loadTemplate(path: string): { readonly name: string; readonly sha256: string; readonly template: ChatTemplate } {
  const source = readFileSync(path, "utf8");
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-template-"));
  try {
    writeFileSync(join(folder, "chat_template.jinja"), source);
    writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ bos_token: "<s>", eos_token: "</s>" }));
    return { name: basename(path, ".jinja"), sha256: hash(source), template: ChatTemplate.load(folder)! };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The text, or a placeholder for a refusal. */
export function rendered(template: ChatTemplate, { messages, options }: Conversation): string {
  try {
    return template.render(messages, options);
  } catch (error) {
    if (error instanceof GatedDeltaError && error.message.includes("the template refuses them: ")) return "\0refused";
    throw error;
  }
}

export const hash = (text: string): string => new Bun.CryptoHasher("sha256").update(text).digest("hex");

/** The digest of a block of conversations. */
export function digestOf(template: ChatTemplate, first: number): string {
  const texts = Array.from({ length: block }, (_, i) => rendered(template, conversationOf(seed, first + i)));
  return hash(texts.map(hash).join("")).slice(0, 16);
}
