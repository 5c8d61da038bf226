/** The conversation about lakes in the AI SDK's terms: its tools, its question, and the contents of each step of the answer. */
import { jsonSchema, tool } from "ai";
import { lakeParameters, runTool, toolNames } from "./servers.ts";

export const lakeTools = Object.fromEntries(
  toolNames.map((name) => [name, tool({ description: `The ${name} of a lake`, inputSchema: jsonSchema<{ lake: string }>(lakeParameters), execute: (input) => runTool(name, input) })]),
);
export const lakeQuestion = "Which is deeper, Baikal or Superior?";

/** For each step its thoughts, its text, and the lakes that its calls name. */
export const lakeSteps = [
  ["Two depths are wanted.", "Let me see.", ["Baikal", "Superior 🏞️"]],
  ["An area, to be sure.", "", ["Superior"]],
  ["That is clear now.", "Baikal is four times as deep as Superior.", []],
];
