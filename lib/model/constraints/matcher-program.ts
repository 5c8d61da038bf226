/**
 * The function of a Worker that compiles grammars and gives masks of tokens, with xgrammar. The Worker gets it as text, because a separate file
 * would have to be found in a clone, a package, a bundler's output and a compiled program. So it uses nothing from outside.
 */

/** The data of the Worker. */
export interface MatcherData {
  /** The path of the library. */
  readonly library: string;
  /** Number of logits. */
  readonly vocabSize: number;
  /** End tokens, which have no text; they are allowed where a text of the grammar may end. */
  readonly ends: readonly number[];
  /** How many compiled grammars are kept, not counting those that open texts use. */
  readonly mostGrammars: number;
}

/** A message to the Worker. All but `tokens` have an answer. */
export type MatcherRequest =
  /** The next tokens of the vocabulary in the alphabet of byte-level BPE; empty for tokens without text. */
  | { readonly kind: "tokens"; readonly tokens: readonly string[] }
  /** Compiles a grammar, unless already compiled, and begins a text of it. From then on `id` names the text. */
  | { readonly kind: "open"; readonly id: number; readonly grammar: string }
  /** The tokens that come next, and guesses after them, which are undone. */
  | { readonly kind: "next"; readonly id: number; readonly matcher: number; readonly tokens: readonly number[]; readonly guesses: readonly number[] }
  | { readonly kind: "close"; readonly matcher: number };

/** An answer of the Worker. */
export type MatcherAnswer = { readonly id: number } & (
  | { readonly kind: "done" }
  /** Masks after the tokens and after each guess that fits, as {@link Barred.allowed}. */
  | { readonly kind: "masks"; readonly masks: readonly Int32Array<ArrayBuffer>[] }
  /** A token that does not fit. */
  | { readonly kind: "unfit"; readonly index: number }
  /** The library has failed and is no longer usable. */
  | { readonly kind: "failed"; readonly message: string }
);

/** The used part of `@mlc-ai/web-xgrammar`. */
interface Library {
  readonly TokenizerInfo: { createTokenizerInfo(tokens: readonly string[], type: string, blank: boolean, size: number, ends: readonly number[]): Promise<object> };
  readonly GrammarCompiler: { createGrammarCompiler(tokenizer: object): Promise<{ compileGrammar(text: string): Promise<Compiled> }> };
  readonly GrammarMatcher: { createGrammarMatcher(grammar: Compiled): Promise<Matcher> };
}

interface Compiled {
  dispose(): void;
}

interface Matcher {
  acceptToken(token: number): boolean;
  getNextTokenBitmask(): Promise<Int32Array<ArrayBuffer>>;
  rollBack(tokens: number): void;
  dispose(): void;
}

/** Serves requests, in order. Runs in a Worker. */
export function serveMasks(): void {
  const { createRequire } = process.getBuiltinModule("node:module");
  const { parentPort, workerData } = process.getBuiltinModule("node:worker_threads");
  const { library: path, vocabSize, ends, mostGrammars } = workerData as MatcherData;
  const said: string[] = [];
  // The library binds these when it is loaded, and writes the reason for a failure to the first.
  console.error = (...parts: unknown[]) => void said.push(parts.join(" "));
  console.log = console.warn = () => {};
  const load = (): Library => createRequire(path)(path) as Library;
  let library: Library | undefined;
  const tokens: string[] = [];
  const grammars = new Map<string, { compiled: Compiled; users: number }>();
  const matchers = new Map<number, { matcher: Matcher; grammar: string }>();
  let compiler: Awaited<ReturnType<Library["GrammarCompiler"]["createGrammarCompiler"]>> | undefined;

  async function compiled(text: string): Promise<{ compiled: Compiled; users: number }> {
    const known = grammars.get(text);
    grammars.delete(text);
    if (known !== undefined) {
      grammars.set(text, known); // the last one used is the last one
      return known;
    }
    const { TokenizerInfo, GrammarCompiler } = (library ??= load());
    compiler ??= await GrammarCompiler.createGrammarCompiler(await TokenizerInfo.createTokenizerInfo(tokens, "byte_level", false, vocabSize, ends));
    for (const [old, { compiled: unused, users }] of grammars) {
      if (grammars.size < mostGrammars) break;
      if (users > 0) continue;
      unused.dispose();
      grammars.delete(old);
    }
    const made = { compiled: await compiler.compileGrammar(text), users: 0 };
    grammars.set(text, made);
    return made;
  }

  async function answer(request: MatcherRequest): Promise<MatcherAnswer | undefined> {
    switch (request.kind) {
      case "tokens":
        for (const token of request.tokens) tokens.push(token);
        return undefined;
      case "open": {
        const grammar = await compiled(request.grammar);
        matchers.set(request.id, { matcher: await library!.GrammarMatcher.createGrammarMatcher(grammar.compiled), grammar: request.grammar });
        grammar.users++;
        return { id: request.id, kind: "done" };
      }
      case "next": {
        const { matcher } = matchers.get(request.matcher)!;
        const index = request.tokens.findIndex((token) => !matcher.acceptToken(token));
        if (index >= 0) return { id: request.id, kind: "unfit", index };
        const masks = [await matcher.getNextTokenBitmask()];
        let guessed = 0;
        for (const guess of request.guesses) {
          // After an end token nothing comes.
          if (ends.includes(guess) || !matcher.acceptToken(guess)) break;
          guessed++;
          masks.push(await matcher.getNextTokenBitmask());
        }
        if (guessed > 0) matcher.rollBack(guessed);
        return { id: request.id, kind: "masks", masks };
      }
      case "close": {
        const { matcher, grammar } = matchers.get(request.matcher)!;
        matcher.dispose();
        matchers.delete(request.matcher);
        grammars.get(grammar)!.users--;
        return undefined;
      }
    }
  }

  let last: Promise<unknown> = Promise.resolve();
  parentPort!.on("message", (request: MatcherRequest) => {
    last = last.then(async () => {
      try {
        const found = await answer(request);
        if (found !== undefined) parentPort!.postMessage(found, found.kind === "masks" ? found.masks.map(({ buffer }) => buffer) : []);
      } catch (error) {
        const id = "id" in request ? request.id : -1;
        parentPort!.postMessage({ id, kind: "failed", message: said.find((line) => line.includes("[FATAL]")) ?? String(error) } satisfies MatcherAnswer);
      }
    });
  });
}
