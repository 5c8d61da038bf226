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
  let state = 1;
  try {
    const key = flags + "/" + source;
    if (!compiled.has(key)) compiled.set(key, new RegExp(source, flags));
    let count = 0;
    for (const match of text.matchAll(compiled.get(key))) {
      answer[2 + 2 * count] = match.index;
      answer[3 + 2 * count++] = match.index + match[0].length;
    }
    answer[1] = count;
  } catch {
    state = 2;
  }
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

/**
 * Where an expression matches a text.
 *
 * @param limit milliseconds.
 * @returns the begin and the end of each match, in turn.
 * @throws {ExpressionError} where the search takes longer; the Worker is ended then.
 */
export function findInWorker(expression: RegExp, text: string, limit: number): Int32Array {
  const { source, flags } = expression;
  const shared = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT * (2 * (text.length + 1) + 2));
  const answer = new Int32Array(shared);
  started().postMessage({ source, flags, text, shared });
  Atomics.wait(answer, 0, 0, Math.max(0, limit));
  const state = Atomics.load(answer, 0);
  if (state === 1) return answer.subarray(2, 2 + 2 * answer[1]!);
  worker?.terminate();
  worker = undefined;
  throw new ExpressionError(state === 2 ? "an error within the search" : `no end of the search in ${text.length} characters`);
}
