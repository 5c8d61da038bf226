/** The page at `/`: its policy, and a conversation on it if there is a Chromium. `npm run test:page` fetches one. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { thinkingTemplate } from "../support/chat-templates.ts";
import { installedChromium, openPage, untilOn } from "../support/chromium.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { lakeParameters, serve } from "../support/servers.ts";
import { openReciter } from "../support/turns.ts";

const chromium = installedChromium();
const { newPath } = scratch();
const device = openDevice(2);
let tiny: LanguageModel;
let reciter: LanguageModel;
/** An answer that would run a script if it became HTML. */
const markup = '<img src=x onerror="document.title = 1"><script>document.title = 2</script>';
const call = '<tool_call>\n{"name": "depth", "arguments": {"lake": "Baikal"}}\n</tool_call>';
beforeAll(async () => {
  tiny = await LanguageModel.load(device, tinyModel, { states: 4, pages: 64 });
  const answers = { 3: `It wants a depth.\n</think>\n\nLet me see.\n${call}`, 5: `That is it.\n</think>\n\n${markup}`, 7: "More?\n</think>\n\nNo more." };
  reciter = await openReciter(device, { answers, template: thinkingTemplate, tokens: "other" }, { states: 12 });
});
afterAll(() => device.close());

describe("the page", () => {
  test("allows itself alone, and has no way from a text to HTML", async () => {
    await using server = serve(tiny, { keys: ["secret"] });
    const response = await server.send("/");
    const text = await response.text();
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const policy = Object.fromEntries(response.headers.get("content-security-policy")!.split("; ").map((part) => part.split(/ (.*)/s).slice(0, 2)));
    for (const name of ["script", "style"]) {
      const [, content] = new RegExp(`<${name}>([\\s\\S]*)</${name}>`).exec(text)!;
      expect(policy[`${name}-src`]).toBe(`'sha256-${createHash("sha256").update(content!).digest("base64")}'`);
      expect(text.split(`<${name}`).length).toBe(2);
    }
    const { "script-src": _, "style-src": __, ...others } = policy;
    expect(others).toEqual({ "default-src": "'none'", "connect-src": "'self'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'" });
    expect(text).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\son\w+=|https?:\/\//);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  });

  test("is there for GET and HEAD, unless an option says no", async () => {
    await using server = serve(tiny);
    const head = await server.send("/", undefined, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect((await server.send("/", {})).status).toBe(405);
    await using without = serve(tiny, { page: false });
    expect((await without.send("/")).status).toBe(404);
  });
});

describe.skipIf(chromium === undefined)("in Chromium", () => {
  const tools = JSON.stringify([{ type: "function", function: { name: "depth", description: "The depth of a lake", parameters: lakeParameters } }]);
  const write = (text: string) => `{ const field = document.getElementById("text"); field.value = ${JSON.stringify(text)}; document.getElementById("form").requestSubmit(); }`;
  const settled = `document.getElementById("send").textContent === "Send" && document.querySelectorAll(".counts").length`;

  test("a conversation with thoughts, a call, its result, markup that stays text, counts and a key", async () => {
    await using server = serve(reciter, { name: "reciter", keys: ["secret"] });
    await using page = await openPage(chromium!, server.url.href, newPath("profile"));
    await untilOn(page, `document.readyState === "complete" && document.getElementById("form") !== null`);
    await page.evaluate(write("Hello"));
    await untilOn(page, `document.querySelector(".problem")?.textContent === "an API key is missing"`);
    expect(await page.evaluate(`document.getElementById("settings").open`)).toBe(true);
    await page.evaluate(`{ const key = document.getElementById("key"); key.value = "secret"; key.dispatchEvent(new Event("change")); document.getElementById("clear").click(); }`);
    await untilOn(page, `document.title === "reciter" && document.getElementById("name").textContent === "reciter"`);
    await page.evaluate(`document.getElementById("tools").value = ${JSON.stringify(tools)}`);
    await page.evaluate(write("How deep is Baikal?"));
    await untilOn(page, `${settled} === 1`);
    expect(await page.evaluate(`[document.querySelector(".thoughts").open, document.querySelector(".thoughts .text").textContent, document.querySelector(".answer > .text").textContent]`)).toEqual([false, "It wants a depth.", "Let me see."]);
    expect(await page.evaluate(`[...document.querySelectorAll(".call > :is(strong, pre)")].map((one) => one.textContent)`)).toEqual(["depth", '{"lake": "Baikal"}']);
    await page.evaluate(`{ document.querySelector(".call textarea").value = "1642"; document.querySelector("button.results").click(); }`);
    await untilOn(page, `${settled} === 2`);
    expect(await page.evaluate(`[...document.querySelectorAll(".answer > .text")].at(-1).textContent`)).toBe(markup);
    expect(await page.evaluate(`[document.title, document.querySelectorAll("main img, main script").length]`)).toEqual(["reciter", 0]);
    await page.evaluate(write("Any more?"));
    await untilOn(page, `${settled} === 3`);
    const counts: string = await page.evaluate(`[...document.querySelectorAll(".counts")].at(-1).textContent`);
    expect(counts).toMatch(/^\d+ tokens, [\d.]+ tokens\/s, the first after \d+ ms; [1-9]\d* of the prompt's \d+ tokens were in the cache$/);
    expect(page.problems.filter((text) => !text.includes("401"))).toEqual([]);
  }, 120_000);

  test("an answer is ended, on a narrow and dark screen that it fits", async () => {
    await using server = serve(tiny);
    await using page = await openPage(chromium!, server.url.href, newPath("profile"));
    await page.send("Emulation.setDeviceMetricsOverride", { width: 360, height: 640, deviceScaleFactor: 1, mobile: true });
    const background = `getComputedStyle(document.body).backgroundColor`;
    await untilOn(page, `document.readyState === "complete" && document.getElementById("form") !== null`);
    const seen = [];
    for (const value of ["light", "dark"]) {
      await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
      seen.push(await page.evaluate(background));
    }
    expect(seen).toEqual(["rgb(251, 251, 250)", "rgb(22, 24, 27)"]);
    await page.evaluate(`{ document.getElementById("settings").open = true; document.getElementById("temperature").value = "1"; }`);
    await page.evaluate(write("w".repeat(300)));
    await untilOn(page, `document.querySelector(".answer") !== null`);
    await page.evaluate(`document.getElementById("form").requestSubmit()`);
    await untilOn(page, `document.getElementById("send").textContent === "Send"`);
    expect(await page.evaluate(`document.documentElement.scrollWidth <= document.documentElement.clientWidth && document.getElementById("send").getBoundingClientRect().right <= 360`)).toBe(true);
    expect(await page.evaluate(`document.getElementById("log").scrollWidth <= document.getElementById("log").clientWidth`)).toBe(true);
    expect(page.problems).toEqual([]);
  }, 120_000);
});
