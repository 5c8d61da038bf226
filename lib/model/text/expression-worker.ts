/**
 * Runs regular expressions that may never end in a Worker, which can be terminated: a search can't be interrupted in its own
 * thread. The caller blocks, so that its call stays synchronous. Terminating a Worker during a search works since Bun 1.4.
 */

/** The search exceeded its time limit or failed. */
export class ExpressionError extends Error {}

/** The Worker's program. It is not a file, so it also works in a compiled program. */
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

/** Extra milliseconds for the Worker to start and answer. */
const delay = 1000;

/**
 * Finds the matches of an expression in a text.
 *
 * @param limit milliseconds for the search. JavaScriptCore gives up a search after 10⁸ steps, which take at least a third
 *   of a second, and reports no match; a lower limit also excludes such wrong answers.
 * @returns the start and end of each match, alternating, and the duration of the search in milliseconds.
 * @throws {ExpressionError} if the search takes longer; a Worker that does not answer is terminated.
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
