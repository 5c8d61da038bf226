/** The page at `/`: a chat in one file, which loads nothing else. */
import { createHash } from "node:crypto";
import chat from "./chat.html" with { type: "text" };

/** A page as a response. */
interface Page {
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
}

let made: Page | undefined;

/** The page. Its policy allows the page's own style and script, by their hashes, and requests to its own server. */
export function chatPage(): Page {
  return (made ??= make(chat as unknown as string));
}

function make(text: string): Page {
  const hashOf = (name: string): string => {
    const content = new RegExp(`<${name}>([\\s\\S]*?)</${name}>`).exec(text)![1]!;
    return `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
  };
  const policy = {
    "default-src": "'none'",
    "script-src": hashOf("script"),
    "style-src": hashOf("style"),
    "connect-src": "'self'",
    "img-src": "data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
  };
  const headers = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": Object.entries(policy).map((pair) => pair.join(" ")).join("; "),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
  };
  return { text, headers };
}
