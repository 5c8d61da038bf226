/** Redis, and a server with a small part of S3's API, on loopback. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A server for a test. */
export interface StoreServer extends AsyncDisposable {
  /** The place of a store. */
  readonly place: string;
  /** The environment in which the store finds it. */
  readonly env: Readonly<Record<string, string>>;
}

/** The program of Redis: `GATED_DELTA_REDIS`, or `redis-server` on PATH, as Debian's package `redis-server` installs it; null without it. */
export const redisProgram = process.env["GATED_DELTA_REDIS"] ?? Bun.which("redis-server");

/** A port on which nothing was listening a moment ago. */
export function freePort(): number {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = server;
  server.stop(true);
  return port;
}

/** Starts Redis, which writes no files. */
export async function startRedis(port = freePort()): Promise<StoreServer> {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-redis-"));
  const child = Bun.spawn([redisProgram!, "--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder], { stdout: "pipe", stderr: "inherit" });
  const reader = child.stdout.getReader();
  let text = "";
  while (!text.includes("Ready to accept connections")) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`redis-server ended:\n${text}`);
    text += new TextDecoder().decode(value);
  }
  void (async () => {
    while (!(await reader.read()).done) continue;
  })();
  const end = async (): Promise<void> => {
    child.kill();
    await child.exited;
    rmSync(folder, { recursive: true, force: true });
  };
  return { place: `redis://127.0.0.1:${port}`, env: {}, [Symbol.asyncDispose]: end };
}

/** The settings with which Bun's client finds a server with S3's API on loopback. */
export function s3Environment(port: number): Record<string, string> {
  return { S3_ENDPOINT: `http://127.0.0.1:${port}`, S3_ACCESS_KEY_ID: "key", S3_SECRET_ACCESS_KEY: "secret" };
}

/**
 * A server for the S3 calls that a store makes, with one bucket in memory: objects, ranges, multipart uploads, lists. It does not
 * check signatures. `npm run test:server -- s3` uses a complete server.
 */
export function startS3(): StoreServer & { readonly objects: Map<string, Uint8Array>; readonly uploads: number } {
  const objects = new Map<string, Uint8Array>();
  const parts = new Map<string, Map<number, Uint8Array>>();
  let uploads = 0;
  const xml = (body: string, status = 200): Response => new Response(`<?xml version="1.0" encoding="UTF-8"?>${body}`, { status, headers: { "content-type": "application/xml" } });
  const failure = (status: number, code: string): Response => xml(`<Error><Code>${code}</Code><Message>${code}</Message></Error>`, status);
  const list = (prefix: string): Response => {
    const contents = [...objects.keys()].filter((key) => key.startsWith(prefix)).sort();
    const entries = contents.map((key) => `<Contents><Key>${key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>${objects.get(key)!.length}</Size></Contents>`);
    return xml(`<ListBucketResult><Name>b</Name><Prefix>${prefix}</Prefix><KeyCount>${contents.length}</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>${entries.join("")}</ListBucketResult>`);
  };
  const get = (request: Request, key: string): Response => {
    const object = objects.get(key);
    if (object === undefined) return failure(404, "NoSuchKey");
    const headers = { "last-modified": new Date().toUTCString(), etag: '"e"' };
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.get("range") ?? "");
    if (range === null) return new Response(request.method === "HEAD" ? null : object, { headers: { ...headers, "content-length": `${object.length}` } });
    const from = Number(range[1]);
    if (from >= object.length) return failure(416, "InvalidRange");
    const to = Math.min(object.length, range[2] === "" ? Infinity : Number(range[2]) + 1);
    return new Response(object.slice(from, to), { status: 206, headers: { ...headers, "content-range": `bytes ${from}-${to - 1}/${object.length}` } });
  };
  const fetch = async (request: Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url);
    const key = decodeURIComponent(pathname).replace(/^\/[^/]+\/?/, "");
    const upload = searchParams.get("uploadId");
    if (request.method === "POST" && searchParams.has("uploads")) {
      const id = `${++uploads}`;
      parts.set(id, new Map());
      return xml(`<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>${key}</Key><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`);
    }
    if (request.method === "POST" && upload !== null) {
      objects.set(key, Buffer.concat([...parts.get(upload)!].sort(([a], [b]) => a - b).map(([, bytes]) => bytes)));
      return xml(`<CompleteMultipartUploadResult><Key>${key}</Key><ETag>"e"</ETag></CompleteMultipartUploadResult>`);
    }
    if (request.method === "PUT") {
      const bytes = new Uint8Array(await request.arrayBuffer());
      if (upload === null) objects.set(key, bytes);
      else parts.get(upload)!.set(Number(searchParams.get("partNumber")), bytes);
      return new Response(null, { headers: { etag: '"e"' } });
    }
    if (request.method === "DELETE") {
      objects.delete(key);
      return new Response(null, { status: 204 });
    }
    return key === "" ? list(searchParams.get("prefix") ?? "") : get(request, key);
  };
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, maxRequestBodySize: 2 ** 30, fetch });
  return {
    place: "s3://sessions/servers",
    env: s3Environment(server.port!),
    objects,
    get uploads() {
      return uploads;
    },
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}
