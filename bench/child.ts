/** A program that reads lines and answers each with a line of JSON. */
export class Child implements Disposable {
  readonly #command: string;
  readonly #process;
  readonly #lines: AsyncIterator<string>;

  constructor(command: readonly string[], environment: Readonly<Record<string, string>> = {}) {
    this.#command = command.join(" ");
    this.#process = Bun.spawn([...command], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
      env: { ...process.env, ...environment },
    });
    this.#lines = linesOf(this.#process.stdout);
  }

  /** The program's next line. */
  async next(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done === true) {
      await this.#process.exited;
      throw new Error(`${this.#command} ended: ${this.#process.signalCode ?? `exit code ${this.#process.exitCode}`}`);
    }
    return JSON.parse(value);
  }

  async ask(line: string): Promise<unknown> {
    this.#process.stdin.write(`${line}\n`);
    await this.#process.stdin.flush();
    return this.next();
  }

  [Symbol.dispose](): void {
    this.#process.kill();
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
}
