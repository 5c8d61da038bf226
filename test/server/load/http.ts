/** HTTP by hand over sockets, so that clients can send half a request, stall and leave at any byte, and see when each piece came. */
import { connect } from "node:net";
import type { Socket } from "node:net";

/** A response as its bytes came. */
export interface RawResponse {
  /** 0 if the connection ended before a status line. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Milliseconds from the request to the first byte. */
  readonly first: number;
  /** The longest time between two pieces after the first, in milliseconds. */
  readonly gap: number;
}

/** How a client reads its response. */
export interface Manners {
  /** Leaves after this many bytes. @default never */
  readonly leaveAfter?: number;
  /** Leaves after this many milliseconds. @default never */
  readonly leaveAt?: number;
  /** Reads nothing for this many milliseconds. @default 0 */
  readonly stall?: number;
}

/** A request's bytes. */
export function requestText(method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): string {
  const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
  const all = { host: "127.0.0.1", connection: "close", ...(body === undefined ? {} : { "content-type": "application/json", "content-length": `${Buffer.byteLength(text)}` }), ...headers };
  return `${method} ${path} HTTP/1.1\r\n${Object.entries(all).map((pair) => `${pair.join(": ")}\r\n`).join("")}\r\n${text}`;
}

/** Sends bytes on a new connection; resolves when that is closed, even by this client. Never rejects. */
export function exchange(port: number, request: string | Uint8Array, { leaveAfter = Infinity, leaveAt, stall = 0 }: Manners = {}): Promise<RawResponse> {
  return new Promise((resolve) => {
    const pieces: Buffer[] = [];
    let [bytes, first, last, gap] = [0, 0, 0, 0];
    const begun = performance.now();
    const socket: Socket = connect(port, "127.0.0.1");
    const timers = [
      ...(leaveAt === undefined ? [] : [setTimeout(() => socket.destroy(), leaveAt)]),
      ...(stall === 0 ? [] : [setTimeout(() => socket.resume(), stall)]),
    ];
    socket.on("data", (piece) => {
      const now = performance.now();
      if (bytes === 0) first = now - begun;
      else gap = Math.max(gap, now - last);
      last = now;
      bytes += piece.length;
      pieces.push(Buffer.from(piece));
      if (bytes >= leaveAfter) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      for (const timer of timers) clearTimeout(timer);
      resolve({ ...parsed(Buffer.concat(pieces)), first, gap });
    });
    if (stall > 0) socket.pause();
    socket.write(request);
  });
}

function parsed(bytes: Buffer): Pick<RawResponse, "status" | "headers" | "body"> {
  const end = bytes.indexOf("\r\n\r\n");
  const [line = "", ...lines] = (end < 0 ? "" : bytes.subarray(0, end).toString("latin1")).split("\r\n");
  const headers = Object.fromEntries(lines.map((one) => [one.slice(0, one.indexOf(":")).toLowerCase(), one.slice(one.indexOf(":") + 1).trim()]));
  const rest = bytes.subarray(end + 4);
  const body = headers["transfer-encoding"] === "chunked" ? unchunked(rest) : rest;
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(line)?.[1] ?? 0), headers, body: body.toString("utf8") };
}

/** The chunks that arrived whole. */
function unchunked(bytes: Buffer): Buffer {
  const chunks: Buffer[] = [];
  for (let at = 0; ; ) {
    const end = bytes.indexOf("\r\n", at);
    if (end < 0) break;
    const size = parseInt(bytes.subarray(at, end).toString("latin1"), 16);
    if (!(size > 0) || end + 2 + size > bytes.length) break;
    chunks.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
  return Buffer.concat(chunks);
}
