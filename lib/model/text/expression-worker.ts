/**
 * Regular expressions that may take any time run in a Worker, which can be ended: a search cannot be interrupted in the thread
 * that it runs in. The caller waits, so that its call stays an ordinary one. Ending a Worker within a search works in Bun from 1.4 on.
 */

/** The search took longer than it was given, or could not be made. */
export class ExpressionError extends Error {}

/** Runs in the Worker. Bun needs no file for it, and so neither does a compiled program. */
const program = `
const compiled = new Map();
self.onmessage = ({ data: { source, flags, text, shared } }) => {
  const answer = new Int32Array(shared);
  const start = performance.now();
  let state = 1;
  try {
    const key = flags + "/" + source;
    if (!compiled.has(key)) compiled.set(key, new RegExp(source, flags));
    let count = 0;
    for (const match of text.matchAll(compiled.get(key))) {
      answer[3 + 2 * count] = match.index;
      answer[4 + 2 * count++] = match.index + match[0].length;
    }
    answer[1] = count;
  } catch {
    state = 2;
  }
  answer[2] = 1000 * (performance.now() - start);
  Atomics.store(answer, 0, state);
  Atomics.notify(answer, 0);
};`;

let worker: Worker | undefined;

function started(): Worker {
  if (worker !== undefined) return worker;
  const url = URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
  worker = new Worker(url);
  worker.unref();
  return worker;
}

/** Milliseconds that the Worker gets to start, and its answer to come, besides those of the search. */
const delay = 1000;

/**
 * Where an expression matches a text.
 *
 * @param limit milliseconds of the search itself. JavaScriptCore gives up a search after 10⁸ steps, which take from a third
 *   of a second on, and says that nothing matches: so a limit below that is one on wrong answers too.
 * @returns the begin and the end of each match, in turn, and the milliseconds that the search took.
 * @throws {ExpressionError} where the search takes longer; a Worker that does not come back is ended.
 */
export function findInWorker(expression: RegExp, text: string, limit: number): { readonly found: Int32Array; readonly took: number } {
  const { source, flags } = expression;
  const shared = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT * (2 * (text.length + 1) + 3));
  const answer = new Int32Array(shared);
  started().postMessage({ source, flags, text, shared });
  Atomics.wait(answer, 0, 0, limit + delay);
  const state = Atomics.load(answer, 0);
  if (state === 2) throw new ExpressionError("an error within the search");
  const took = answer[2]! / 1000;
  if (state === 1 && took <= limit) return { found: answer.subarray(3, 3 + 2 * answer[1]!), took };
  if (state === 0) {
    worker?.terminate();
    worker = undefined;
  }
  throw new ExpressionError(`no end of the search in ${text.length} characters`);
}
