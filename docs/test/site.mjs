// The built site as files: its pages, what each of them holds, and a server on loopback.
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { rootFolder } from "../../swift/scripts/root.mjs";

export const site = join(rootFolder, ".build", "site");
/** Where the site stands on its server; see .vitepress/config.ts. */
export const base = process.env.GATED_DELTA_DOCS_BASE ?? "/";

const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json", ".woff2": "font/woff2" };

const isFile = (path) => existsSync(path) && statSync(path).isFile();

/** The file that the server answers a path with, relative to the site; null where there is none. */
export function fileAt(path) {
  if (!path.startsWith(base)) return null;
  const inside = decodeURIComponent(path.slice(base.length));
  return [inside, `${inside}.html`, join(inside, "index.html")].find((name) => isFile(join(site, name))) ?? null;
}

const entities = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
const decode = (text) => text.replace(/&(?:amp|lt|gt|quot|#39);/g, (entity) => entities[entity]);
const all = (html, pattern) => [...html.matchAll(pattern)].map(([, value]) => decode(value));

/** Every page, by its name relative to the site: where its links lead, which parts it has, and what is missing from it. */
export function readPages() {
  const names = readdirSync(site, { recursive: true }).filter((name) => name.endsWith(".html") && name !== "404.html");
  return new Map(names.sort().map((name) => [name, readPage(readFileSync(join(site, name), "utf8"))]));
}

function readPage(html) {
  const body = html.slice(html.indexOf("<body"));
  const main = /<main[\s\S]*<\/main>/.exec(body)?.[0] ?? body;
  const prose = main.replace(/<(pre|code|svg|style|script)\b[\s\S]*?<\/\1>/g, " ").replace(/<[^>]*>/g, " ");
  const problems = [];
  if (!/<h1[^>]*>[\s\S]*?\w[\s\S]*?<\/h1>/.test(body)) problems.push("no heading");
  if (/\$\$|\\(?:begin|frac|text|mathrm|operatorname)\b/.test(prose)) problems.push("a formula that was not rendered");
  if (/data-mml-node="merror"|class="katex-error"/.test(main)) problems.push("a formula with an error");
  return {
    hrefs: [...new Set(all(body, /<a\b[^>]*?\shref="([^"]*)"/g))],
    files: [...new Set([...all(html, /<(?:img|script)\b[^>]*?\ssrc="([^"]*)"/g), ...all(html, /<link\b[^>]*?\shref="([^"]*)"/g)])],
    /** Error classes that paragraphs begin with. */
    errors: all(main, /<p><a href="[^"]*\/(\w+Error)\.html"/g),
    ids: new Set(all(body, /\sid="([^"]*)"/g)),
    formulas: (main.match(/<mjx-container/g) ?? []).length,
    programs: (main.match(/<div class="language-ts/g) ?? []).length,
    icon: /<link rel="icon"[^>]*? href="([^"]*)"/.exec(html)?.[1],
    pictures: (main.match(/<span class="picture/g) ?? []).length,
    problems,
  };
}

/** The errors in a page's links: each within the site leads to a page, and to a part of it that is there. */
export function linkProblems(name, pages) {
  const { hrefs, files } = pages.get(name);
  const here = new URL(`${base}${name}`, "http://site");
  const problems = [];
  for (const href of [...hrefs, ...files]) {
    const url = new URL(href, here);
    if (url.origin !== here.origin) continue;
    const target = fileAt(url.pathname);
    const part = decodeURIComponent(url.hash.slice(1));
    if (target === null) problems.push(`a link to nothing: ${href}`);
    else if (part !== "" && !pages.get(target)?.ids.has(part)) problems.push(`a link to no part of ${target}: ${href}`);
  }
  return problems;
}

/** The site on loopback; what is not there is a 404. */
export function serve() {
  const server = createServer((request, response) => {
    const file = fileAt(new URL(request.url, "http://site").pathname);
    response.writeHead(file === null ? 404 : 200, { "content-type": types[extname(file ?? "")] ?? "application/octet-stream", "cache-control": "max-age=600" });
    response.end(file === null ? "" : readFileSync(join(site, file)));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ server, origin: `http://127.0.0.1:${server.address().port}` })));
}
