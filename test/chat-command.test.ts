/** `gated-delta chat`, through pipes and on a terminal. */
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tinyModel } from "../lib/model.ts";
import { thinkingTemplate } from "./support/chat-templates.ts";
import { gatedDelta } from "./support/command.ts";
import { writeEndless } from "./support/endless.ts";
import { scratch } from "./support/files.ts";
import { writeReciter } from "./support/reciter.ts";

const { newPath } = scratch();
const thinker = writeReciter(newPath("thinker"), {
  answers: { 2: "A greeting.\n</think>\n\nHello to you.", 4: "Another one.\n</think>\n\nHello again.", 3: "Whose?\n</think>\n\nMind the system." },
  template: thinkingTemplate,
});
const endless = writeEndless(newPath("endless"));
const device = ["--backend", "cpu", "--threads", "1"];
const chat = (model: string, input: string, ...options: string[]) => gatedDelta(["chat", model, ...device, ...options], {}, input);

describe("through pipes", () => {
  test("answers line by line, in one conversation, without thoughts", () => {
    const { status, out, errors } = chat(thinker, "Hi\nHi\n");
    expect([status, out]).toEqual([0, "Hello to you.\nHello again.\n"]);
    expect(errors).toMatch(/^2 layers, \d+ MB, on cpu: .*; \/help lists the commands\n$/);
    expect(chat(thinker, "Hi", "--quiet", "--system", "Be brief.")).toEqual({ status: 0, out: "Mind the system.\n", errors: "" });
  });

  test("gives the answers of generate", () => {
    const options = ["--max-tokens", "9", "--temperature", "0.8", "--seed", "5", "--quiet"];
    expect(chat(tinyModel, "Hello\n", ...options).out).toBe(gatedDelta(["generate", tinyModel, "Hello", ...device, ...options]).out);
  });

  test("a conversation is written, begun again, and goes on from its file", () => {
    const file = newPath("conversation");
    const { status, out, errors } = chat(thinker, `Hi\n/save ${file}\n/clear\nHi\n/load ${file}\nHi\n/exit\nHi\n`);
    expect([status, out]).toEqual([0, "Hello to you.\nHello to you.\nHello again.\n"]);
    expect(errors).toMatch(/\n\d+ tokens\n$/);
    expect(chat(thinker, `/load ${file}\nHi\n`, "--quiet").out).toBe("Hello again.\n");
  });

  test("lines that go on, messages that begin with a slash, and empty ones", () => {
    const one = chat(tinyModel, "\n  \n//Hello\\\nyou\n", "--max-tokens", "6", "--quiet");
    expect(one.out).toBe(gatedDelta(["generate", tinyModel, "/Hello\nyou", ...device, "--max-tokens", "6", "--quiet"]).out);
    expect(chat(tinyModel, "Hello\\", "--max-tokens", "6", "--quiet").out).toBe(gatedDelta(["generate", tinyModel, "Hello", ...device, "--max-tokens", "6", "--quiet"]).out);
  });

  test("commands that are wrong say so, and the conversation goes on", () => {
    const { status, out, errors } = chat(thinker, "/nosuch\n/save\n/load /nowhere\n/save /nowhere/at/all\n/help\nHi\n", "--quiet");
    expect([status, out]).toEqual([0, "Hello to you.\n"]);
    const lines = errors.split("\n");
    for (const [i, text] of ['no command "/nosuch"', "/save takes a file's name", "/nowhere: expected a readable file", "/nowhere/at/all", "  /save FILE"].entries()) expect(lines[i]).toContain(text);
  });

  test("a message that does not fit is taken back", () => {
    const { status, out, errors } = chat(thinker, `Hi\n${"Too long. ".repeat(60)}\nHi\n`, "--context", "200", "--quiet");
    expect([status, out]).toEqual([0, "Hello to you.\nHello again.\n"]);
    expect(errors).toMatch(/^gated-delta chat: chat: the conversation has \d+ tokens, and room for 200: \/clear, or a larger --context\n$/);
  });

  test("a context beyond the model's positions is refused", () => {
    const { status, errors } = chat(thinker, "Hi\n", "--context", "1000000");
    expect(status).toBe(2);
    expect(errors).toMatch(/^gated-delta chat: --context: expected at most the model's \d+ positions, got 1000000 /);
  });

  test("a file that is not a conversation stays as it is", () => {
    const [other, saved] = [newPath("other"), newPath("saved")];
    writeFileSync(other, "Mine");
    const { status, errors } = chat(thinker, `Hi\n/save ${other}\n/save ${saved}\n/save ${saved}\n/clear all\n`, "--quiet");
    expect([status, readFileSync(other, "utf8")]).toEqual([0, "Mine"]);
    const lines = errors.trimEnd().split("\n");
    expect(lines[0]).toBe(`gated-delta chat: /save: ${other} is there, and is not a conversation that this version has saved: name another file`);
    expect(lines[1]).toMatch(new RegExp(`^\\d+ tokens in ${saved}$`));
    expect(lines.slice(2)).toEqual([lines[1]!, "gated-delta chat: /clear takes nothing after it"]);
  });

  test("lines before one that is not UTF-8 are answered, and it is refused", () => {
    for (const input of [Buffer.from("Hi\r\nHi \xff\nHi\n", "latin1"), Buffer.from("Hi\nHi \xc3", "latin1")]) {
      const { status, out, errors } = gatedDelta(["chat", thinker, ...device, "--quiet"], {}, input);
      expect([status, out, errors]).toEqual([2, "Hello to you.\n", "gated-delta chat: the standard input: expected messages in UTF-8, got other bytes (gated-delta chat --help describes it)\n"]);
    }
  });

  test.each([
    ["temperature", "NaN", 'a number, got "NaN"'],
    ["temperature", "2e6", "a number in 0..1000000, got 2000000"],
    ["top-k", "1.5", "an integer in 0..2147483647, got 1.5"],
    ["top-p", "3", "a number above 0, at most 1, got 3"],
    ["min-p", "1.1", "a number in 0..1, got 1.1"],
    ["repetition-penalty", "0", "a number in 0.01..100, got 0"],
    ["seed", "0.5", "an integer in 0..9007199254740991, got 0.5"],
    ["max-tokens", "many", 'a number, got "many"'],
  ])("--%s %s is a mistake of usage before a model is loaded", (option, value, words) => {
    const { status, out, errors } = gatedDelta(["chat", "no such folder", `--${option}`, value], {}, "Hi\n");
    expect([status, out, errors]).toEqual([2, "", `gated-delta chat: --${option}: expected ${words} (gated-delta chat --help describes it)\n`]);
  });

  test("mistakes of usage, and models without a chat", () => {
    for (const [args, mention] of [[[], "one model"], [["a", "b"], "one model"], [["a", "--context", "0"], "--context"], [["a", "--dtype", "f64"], "--dtype"], [["a", "--raw"], "no option --raw"]] as const) {
      const { status, errors } = gatedDelta(["chat", ...args]);
      expect([status, errors.includes(mention), errors.includes("gated-delta chat --help")]).toEqual([2, true, true]);
    }
    expect(gatedDelta(["chat", newPath("nowhere"), ...device]).status).toBe(2);
  });
});

/** Runs the command on a terminal. */
const onTerminal = (model: string, ...options: string[]) => byShell('exec "$@"', model, ...options);

/** Runs a line of a shell on a terminal, in which "$@" is the command. */
function byShell(line: string, model: string, ...options: string[]) {
  let seen = "";
  const child = Bun.spawn(["sh", "-c", line, "sh", process.execPath, join(import.meta.dir, "../lib/cli/main.ts"), "chat", model, ...device, ...options], {
    env: { ...process.env, NO_COLOR: undefined, TERM: "xterm" },
    terminal: { cols: 200, rows: 40, data: (_, data) => void (seen += new TextDecoder().decode(data)) },
  });
  const until = async (holds: (text: string) => boolean): Promise<void> => {
    const deadline = performance.now() + 60_000;
    while (!holds(seen)) {
      if (performance.now() > deadline || child.exitCode !== null) throw new Error(`it never came, but\n${JSON.stringify(seen)}`);
      await Bun.sleep(10);
    }
  };
  /** Waits for the next prompt, and writes. */
  let prompts = 0;
  const write = async (text: string): Promise<void> => {
    prompts++;
    await until((all) => all.split("> ").length > prompts);
    await Bun.sleep(50); // the line editor begins to listen
    seen += "\0"; // so that a prompt that is drawn again counts once
    prompts = seen.split("> ").length - 1;
    child.terminal!.write(text);
  };
  return { child, until, write, seen: () => seen };
}

describe("on a terminal", () => {
  test("thoughts are dim, and a line of counts follows", async () => {
    const { child, until, write, seen } = onTerminal(thinker);
    await write("Hi\r");
    await until((text) => text.includes("were known"));
    expect(seen()).toContain("\x1b[2mA greeting.\x1b[0m");
    expect(seen()).toMatch(/Hello to you\.\r\n\x1b\[2m\d+ tokens, [\d.]+ tokens\/s, the first after \d+ ms; 0 of the prompt's \d+ were known\x1b\[0m/);
    await write("Hi\r");
    await until((text) => text.split("were known").length > 2);
    const [first, known, second] = /of the prompt's (\d+) were known[^]*?(\d+) of the prompt's (\d+) were known/.exec(seen())!.slice(1).map(Number);
    expect(known).toBeLessThan(second!);
    expect(first).toBeLessThan(second!);
    await write("\x04"); // Ctrl-D
    expect(await child.exited).toBe(0);
  }, 120_000);

  test("with the output in a file the conversation is on the screen, and the answers alone in the file", async () => {
    const file = newPath("answers");
    const { child, write } = byShell(`exec "$@" > ${file}`, thinker, "--quiet");
    await write("Hi\r");
    await write("\x04");
    expect([await child.exited, readFileSync(file, "utf8")]).toEqual([0, "Hello to you.\n"]);
  }, 120_000);

  test("it ends with its terminal, also where that sends no signal", async () => {
    const { child, until } = byShell(`trap "" HUP; exec "$@"`, thinker);
    await until((text) => text.includes("> "));
    child.terminal!.close();
    expect([0, 2]).toContain(await child.exited); // its last line end can't be written
  }, 120_000);

  test("of pasted lines each is answered, and the rest of the last one can be gone on with", async () => {
    const { child, until, write, seen } = onTerminal(thinker, "--quiet");
    await write("Hi\rHi\r/cl");
    await until((text) => text.includes("Hello again.") && text.split("> ").length > 3);
    expect(seen()).toMatch(/Hello to you\.\r\n> Hi\r\n[^]*Hello again\.\r\n/);
    await until((text) => text.endsWith("/cl"));
    child.terminal!.write("ear\rHi\r");
    await until((text) => text.split("Hello to you.").length === 3);
    await until((text) => /> \x1b\[\d+G$/.test(text));
    child.terminal!.write("\x04");
    expect(await child.exited).toBe(0);
  }, 120_000);

  test.each([undefined, 0, 50, 400])("Ctrl-C ends an answer, and at the prompt the conversation; a second signal comes after %p ms", async (gap) => {
    const { child, until, write } = onTerminal(endless, "--max-tokens", "100000", "--context", "200000");
    await write("Hello\r");
    await until((text) => text.length > 400);
    child.terminal!.write("\x03");
    // The program that started the command passes the terminal's signal on.
    if (gap !== undefined) {
      await Bun.sleep(gap);
      child.kill("SIGINT");
    }
    await write("/help\r");
    await until((text) => text.includes("/save FILE"));
    await write("\x03");
    expect(await child.exited).toBe(0);
  }, 120_000);
});
