/** A headless Chromium, driven over its debugging protocol. */
import { existsSync } from "node:fs";
import { homedir } from "node:os";

/** How to start a browser. */
export interface Chromium {
  readonly program: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The browser that GATED_DELTA_CHROMIUM names, or one on PATH; undefined if there is none. */
export function installedChromium(): Chromium | undefined {
  const names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
  const program = process.env["GATED_DELTA_CHROMIUM"] ?? names.map((name) => Bun.which(name)).find((path) => path !== null);
  return program === undefined || !existsSync(program) ? undefined : { program, env: process.env };
}

/** An open page. */
export interface Page extends AsyncDisposable {
  /** The value of an expression, as JSON; promises are awaited. */
  evaluate(expression: string): Promise<any>;
  /** Sends a command of the protocol. */
  send(method: string, params?: object): Promise<any>;
  /** Failures on the page so far: exceptions, errors in its console, violations of its policy. */
  readonly problems: readonly string[];
}

/** Opens a page in a browser of its own. */
export async function openPage({ program, env }: Chromium, url: string, profile: string): Promise<Page> {
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"];
  const browser = Bun.spawn([program, ...args], { env: { ...env, HOME: env["HOME"] ?? homedir() }, stdout: "ignore", stderr: "pipe" });
  const address = await addressOf(browser.stderr);
  const socket = new WebSocket(address);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  const problems: string[] = [];
  const waiting = new Map<number, PromiseWithResolvers<any>>();
  let last = 0;
  socket.onmessage = ({ data }) => {
    const { id, result, error, method, params } = JSON.parse(String(data));
    if (method === "Runtime.exceptionThrown") problems.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.level === "error") problems.push(params.entry.text);
    if (id === undefined) return;
    const { resolve, reject } = waiting.get(id)!;
    waiting.delete(id);
    if (error === undefined) resolve(result);
    else reject(new Error(error.message));
  };
  const command = (method: string, params: object = {}, sessionId?: string): Promise<any> => {
    const answer = Promise.withResolvers<any>();
    waiting.set(++last, answer);
    socket.send(JSON.stringify({ id: last, method, params, sessionId }));
    return answer.promise;
  };
  const { targetId } = await command("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await command("Target.attachToTarget", { targetId, flatten: true });
  const send = (method: string, params?: object): Promise<any> => command(method, params, sessionId);
  for (const domain of ["Runtime", "Log", "Page"]) await send(`${domain}.enable`);
  await send("Page.navigate", { url });
  const evaluate = async (expression: string): Promise<any> => {
    const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  const end = async (): Promise<void> => {
    socket.close();
    browser.kill();
    await browser.exited;
  };
  return { evaluate, send, problems, [Symbol.asyncDispose]: end };
}

/** The address that a browser prints when it is ready. */
async function addressOf(errors: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of errors) {
    text += new TextDecoder().decode(chunk);
    const found = /DevTools listening on (ws:\S+)/.exec(text);
    if (found !== null) return found[1]!;
  }
  throw new Error(`the browser ended:\n${text}`);
}

/** Waits until an expression holds on a page. */
export async function untilOn(page: Page, expression: string, milliseconds = 30_000): Promise<void> {
  const deadline = performance.now() + milliseconds;
  while ((await page.evaluate(expression)) !== true) {
    if (performance.now() > deadline) throw new Error(`it never held: ${expression}\n${await page.evaluate("document.body.innerText")}\n${page.problems.join("\n")}`);
    await Bun.sleep(20);
  }
}

