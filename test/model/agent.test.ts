/** The example of an agent, with a model that recites: interrupted at any moment, it calls its tools and answers. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { thinkingTemplate } from "../support/chat-templates.ts";
import { scratch } from "../support/files.ts";
import { writeReciter } from "../support/reciter.ts";

const root = join(import.meta.dir, "../..");
const { folder, newPath } = scratch();

const call = (name: string, lake: string) => `<tool_call>\n{"name": "${name}", "arguments": {"lake": "${lake}"}}\n</tool_call>`;
const answers = {
  3: `Two depths, and an area to be sure.\n</think>\n\nLet me see.\n${call("depth", "Baikal")}\n${call("depth", "Superior")}\n${call("area", "Superior")}`,
  5: "1642 against 406: that is clear.\n</think>\n\nBaikal is four times as deep as Superior.",
  7: `Only numbers are wanted.\n</think>{"Baikal":1642,"Superior":406}`,
};

/** Runs the example as a project that has installed the package would. */
async function run(model: string, milliseconds: number): Promise<string> {
  const modules = join(folder, "node_modules");
  mkdirSync(modules, { recursive: true });
  if (!existsSync(join(modules, "gated-delta"))) symlinkSync(root, join(modules, "gated-delta"), "dir");
  const script = join(folder, "agent.ts");
  writeFileSync(script, readFileSync(join(root, "docs/examples/agent.ts")));
  const child = Bun.spawn([process.execPath, script, model, `${milliseconds}`], { cwd: root, stdout: "pipe", stderr: "pipe" });
  const [out, errors] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect([await child.exited, errors]).toEqual([0, ""]);
  return out;
}

test("the agent of the guide calls tools at the same time, is aborted, goes on from its file, and answers", async () => {
  const model = writeReciter(newPath(), { answers, template: thinkingTemplate, tokens: "other" });
  for (const milliseconds of [0, 4, 8, 16, 32, 64, 1000]) {
    const out = (await run(model, milliseconds)).replace(/\x1b\[\d+m/g, "");
    expect(out).toBe("Two depths, and an area to be sure.Let me see.1642 against 406: that is clear.Baikal is four times as deep as Superior.\nBaikal is 1642 metres deep\n");
  }
}, 60_000);

test("it has at most sixty lines", () => {
  expect(readFileSync(join(root, "docs/examples/agent.ts"), "utf8").trimEnd().split("\n").length).toBeLessThanOrEqual(60);
});
