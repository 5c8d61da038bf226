/** A program that takes lines and answers each with a line of JSON. */
export class Child implements Disposable {
  readonly #process;
  readonly #lines: AsyncIterator<string>;

  /** `library`: the library that the program is to load, if not the one that it finds by itself. */
  constructor(program: string, threads: number, library: string | undefined) {
    this.#process = Bun.spawn([process.execPath, `${import.meta.dir}/${program}`, String(threads)], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
      env: library === undefined ? process.env : { ...process.env, GATED_DELTA_LIBRARY: library },
    });
    this.#lines = linesOf(this.#process.stdout);
  }

  /** The program's next line. */
  async next(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error("a process ended");
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
