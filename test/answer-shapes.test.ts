/** Recorded answers in every shape that models give, and the pieces of each, wherever its text is cut. */
import { describe, expect, test } from "bun:test";
import { AnswerParser } from "../lib/model/text/formats/answer-parser.ts";
import { messageOf } from "../lib/model/text/formats/answer-message.ts";
import type { AnswerPiece } from "../lib/model/text/formats/answer-piece.ts";
import { piecesOf } from "./answer-texts/check.ts";
import { formats } from "./answer-texts/formats.ts";
import { thrownBy } from "./support/devices.ts";
import { Random } from "./support/random.ts";
import recorded from "./answer-shapes.json";

interface Shape {
  readonly name: string;
  readonly format: string;
  readonly reasoning: "open" | "closed";
  /** The name of the tools in the file. */
  readonly tools: keyof typeof recorded.tools;
  readonly text: string;
  readonly pieces: readonly unknown[];
}

const shapes = (recorded.shapes as readonly Shape[]).map((shape) => ({ ...shape, tools: recorded.tools[shape.tools], pieces: withBigints(shape.pieces) as AnswerPiece[] }));

/** JSON has no bigints: `{ $bigint }` stands for one. Rebuilt without assignment, which would set a prototype. */
function withBigints(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withBigints);
  const entries = Object.entries(value);
  return entries[0]?.[0] === "$bigint" ? BigInt(entries[0][1] as string) : Object.fromEntries(entries.map(([key, one]) => [key, withBigints(one)]));
}

test("there are more than two hundred, of every format", () => {
  expect(shapes.length).toBeGreaterThan(200);
  expect(new Set(shapes.map(({ format }) => format))).toEqual(new Set(["plain", "qwen3.5", "qwen3-coder", "qwen3", "qwen3-instruct", "olmo", "olmo-think"]));
});

describe("the pieces of", () => {
  test.each(shapes.map((shape) => [shape.name, shape] as const))("%s", (_, shape) => {
    expect(piecesOf(shape)).toEqual(shape.pieces);
    expect(shape.pieces.map(({ raw }) => raw).join("")).toBe(shape.text);
    for (let cut = 0; cut <= shape.text.length; cut++) {
      if (!Bun.deepEquals(piecesOf(shape, [cut]), shape.pieces, true)) expect([cut, piecesOf(shape, [cut])]).toEqual([cut, shape.pieces]);
    }
    const random = new Random(shape.text.length);
    for (let i = 0; i < 16; i++) {
      const cuts = [random.below(shape.text.length + 1), random.below(shape.text.length + 1)];
      if (!Bun.deepEquals(piecesOf(shape, cuts), shape.pieces, true)) expect([cuts, piecesOf(shape, cuts)]).toEqual([cuts, shape.pieces]);
    }
  });
});

test("tools that JSON can't hold are refused, and descriptions of another form are skipped", () => {
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  const made = (tools: readonly object[]) => () => new AnswerParser(formats["qwen3.5"]!, { tools, reasoning: "closed" });
  expect(thrownBy(made([circle]))).toMatchObject({ code: "invalid-argument", argument: "tools" });
  expect(made([{}, [], { name: 5 }, { function: null }, { name: "f", parameters: { properties: 5, required: "x" } }])).not.toThrow();
});

test("a message has the text, the thoughts and the complete calls", () => {
  const { pieces } = shapes.find(({ name }) => name === "thoughts, text and a call")!;
  expect(messageOf(pieces, true)).toEqual({
    role: "assistant",
    content: "I will look.",
    reasoning_content: "Which city?",
    tool_calls: [{ type: "function", function: { name: "get_weather", arguments: { city: "Paris" } } }],
  });
  expect(messageOf([], true)).toEqual({ role: "assistant", content: "", reasoning_content: "" });
  const cut = shapes.find(({ name }) => name === "no end of the argument, the function and the call")!;
  expect(messageOf(cut.pieces, false)).toEqual({ role: "assistant", content: cut.text });
});
