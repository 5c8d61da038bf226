/** Replacements in a text, gathered in any order and applied at once. Line breaks of replaced text are kept. */
import type { Range, Tokens } from "../frontend/cursor.ts";

export class Edits {
  readonly #tokens: Tokens;
  readonly #list: { start: number; end: number; text: string }[] = [];

  constructor(tokens: Tokens) {
    this.#tokens = tokens;
  }

  /** Replaces the tokens of a range. Edits inside an earlier replaced range are dropped. */
  replace(range: Range, text: string): void {
    if (range.end <= range.begin) return;
    this.#list.push({ start: this.#tokens.at(range.begin).start, end: this.#tokens.at(range.end - 1).end, text });
  }

  insertBefore(index: number, text: string): void {
    const at = this.#tokens.at(index).start;
    this.#list.push({ start: at, end: at, text });
  }

  insertAfter(index: number, text: string): void {
    const at = this.#tokens.at(index).end;
    this.#list.push({ start: at, end: at, text });
  }

  apply(): string {
    const source = this.#tokens.source;
    const sorted = this.#list
      .map((edit, order) => ({ ...edit, order }))
      // Insertions come before a replacement at the same place; of nested replacements the outer one applies.
      .sort((a, b) => a.start - b.start || inserted(b) - inserted(a) || b.end - a.end || a.order - b.order);
    let out = "";
    let at = 0;
    for (const edit of sorted) {
      if (edit.start < at) continue;
      const removed = source.slice(edit.start, edit.end);
      out += source.slice(at, edit.start) + edit.text + keptLines(removed);
      at = edit.end;
    }
    return out + source.slice(at);
  }
}

function inserted(edit: { start: number; end: number }): number {
  return edit.start === edit.end ? 1 : 0;
}

/** Line breaks and line markers of a removed text, so that the lines after it keep their numbers. */
function keptLines(removed: string): string {
  return removed
    .split("\n")
    .map((line, n) => (n > 0 && /^\s*#\s*\d+\s+"/.test(line) ? line : ""))
    .join("\n");
}
