/** Streams of server-sent events. */
import { stringifyWithDigits } from "../model/text/json-digits.ts";

/** An event's text. */
export function dataLine(value: object | string): string {
  return `data: ${typeof value === "string" ? value : stringifyWithDigits(value)}\n\n`;
}

/** An event with a name, as text. */
export function namedEvent(value: { readonly type: string; readonly [key: string]: unknown }): string {
  return `event: ${value.type}\n${dataLine(value)}`;
}

/** A comment, which clients ignore but which keeps proxies and clients waiting. */
export const commentLine = ": waiting\n\n";

/** Milliseconds without an event after which a comment is sent. */
const longestSilence = 5000;

/** The headers of a stream, which tell proxies not to buffer it. */
export const streamHeaders = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no" };

/** A promise's value, or undefined if it does not come within some milliseconds. */
export async function within<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  const silence = Promise.withResolvers<undefined>();
  const timer = setTimeout(silence.resolve, milliseconds, undefined);
  try {
    return await Promise.race([promise, silence.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * A body of texts that come one by one. The next one is asked for when the client has taken the last one.
 *
 * @param first the first text, when it comes.
 * @param leave called when the client leaves.
 */
export function streamOf(first: Promise<IteratorResult<string, void>>, texts: AsyncIterator<string, void>, leave: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let pending: Promise<IteratorResult<string, void>> | undefined = first;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      pending ??= texts.next();
      const result = await within(pending, longestSilence);
      if (result === undefined) return controller.enqueue(encoder.encode(commentLine));
      pending = undefined;
      if (result.done) controller.close();
      else controller.enqueue(encoder.encode(result.value));
    },
    cancel: leave,
  });
}
