// `npm run test:docs`: builds the site and reads every page of it in headless Chromium. The last line is "N passed, N failed".
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { run } from "../../swift/scripts/exec.mjs";
import { runMain, say } from "../../swift/scripts/report.mjs";
import { rootFolder } from "../../swift/scripts/root.mjs";
import { findChromium } from "./chromium.mjs";

const site = join(rootFolder, ".build", "site");
/** Where the site stands on its server; see .vitepress/config.ts. */
const base = process.env.GATED_DELTA_DOCS_BASE ?? "/";
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".json": "application/json", ".woff2": "font/woff2" };

/** The site on loopback; what is not there is a 404. */
function serve() {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const inside = path.startsWith(base) ? path.slice(base.length) : "not there";
    const file = [inside, `${inside}.html`, join(inside, "index.html")].map((name) => join(site, name)).find((name) => existsSync(name) && statSync(name).isFile());
    response.writeHead(file === undefined ? 404 : 200, { "content-type": types[extname(file ?? "")] ?? "application/octet-stream" });
    response.end(file === undefined ? "" : readFileSync(file));
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ server, origin: `http://127.0.0.1:${server.address().port}` })));
}

function pages() {
  return readdirSync(site, { recursive: true }).filter((name) => name.endsWith(".html") && name !== "404.html").map((name) => `${base}${name}`);
}

const results = { passed: 0, failed: 0 };

function check(name, problems) {
  if (problems.length === 0) results.passed++;
  else {
    results.failed++;
    process.stdout.write(`not ok: ${name}\n${problems.map((problem) => `  ${problem}\n`).join("")}`);
  }
}

/** Reads one page at the width of a desk and of a telephone. */
async function readPage(browser, origin, path, links) {
  const page = await browser.newPage();
  const problems = [];
  page.on("console", (message) => { if (message.type() === "error") problems.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("response", (response) => { if (response.status() >= 400) problems.push(`${response.status()} ${response.url()}`); });
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(`${origin}${path}`, { waitUntil: "networkidle0" });
  const seen = await page.evaluate(() => ({
    title: document.querySelector("h1")?.textContent ?? "",
    hrefs: [...document.querySelectorAll("a[href]")].map((a) => a.href),
    ids: [...document.querySelectorAll("[id]")].map((element) => element.id),
    pictures: [...document.querySelectorAll("main img")].filter((image) => image.naturalWidth === 0).map((image) => image.src),
    unrendered: /\$\$|\\begin\{|\\frac/.test(document.querySelector("main")?.innerText ?? ""),
  }));
  if (seen.title.trim() === "") problems.push("no heading");
  if (seen.unrendered) problems.push("a formula that was not rendered");
  for (const picture of seen.pictures) problems.push(`a picture that does not show: ${picture}`);
  links.set(path, seen);
  await page.setViewport({ width: 390, height: 844, isMobile: true });
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  if (wide > room) problems.push(`${wide} pixels wide on a screen of ${room}`);
  await page.close();
  check(path, problems);
}

/** Every link within the site leads to a page, and to a part of it that is there. */
function checkLinks(origin, links) {
  for (const [path, { hrefs }] of links) {
    const problems = [];
    for (const href of new Set(hrefs)) {
      const url = new URL(href);
      if (url.origin !== origin) continue;
      const target = decodeURIComponent(url.pathname);
      const found = links.get([target, `${target}.html`, join(target, "index.html")].find((name) => links.has(name)) ?? "");
      if (found === undefined) problems.push(`a link to nothing: ${target}`);
      else if (url.hash !== "" && !found.ids.includes(decodeURIComponent(url.hash.slice(1)))) problems.push(`a link to no part of ${target}: ${url.hash}`);
    }
    check(`links of ${path}`, problems);
  }
}

async function checkFormulas(browser, origin, paths) {
  for (const path of paths) {
    const page = await browser.newPage();
    await page.goto(`${origin}${path}`, { waitUntil: "networkidle0" });
    const sizes = await page.$$eval("mjx-container svg", (formulas) => formulas.map((formula) => formula.getBoundingClientRect().height));
    check(`formulas of ${path}`, sizes.length > 0 && sizes.every((size) => size > 0) ? [] : [`heights: ${sizes.join(" ")}`]);
    await page.close();
  }
}

async function checkSearch(browser, origin) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(`${origin}${base}start.html`, { waitUntil: "networkidle0" });
  await page.click(".DocSearch-Button");
  await page.waitForSelector("#localsearch-input", { timeout: 10_000 });
  await page.type("#localsearch-input", "fork");
  const found = await page.waitForSelector("#localsearch-list li a", { timeout: 10_000 }).then(() => page.$$eval("#localsearch-list li a", (links) => links.map((link) => link.href)));
  check("search for fork", found.some((href) => /states|StateHandle/.test(href)) ? [] : [`found ${found.join(" ") || "nothing"}`]);
  await page.close();
}

await runMain(async () => {
  const built = await run(process.execPath, [join(rootFolder, "docs", "build.mjs")], { cwd: rootFolder, output: (line) => process.stdout.write(`${line}\n`) });
  if (built.code !== 0) return built.code ?? 1;
  const chromium = await findChromium();
  const require = createRequire(join(rootFolder, "docs", ".vitepress", "package.json"));
  const { default: puppeteer } = await import(join(dirname(require.resolve("puppeteer-core/package.json")), "lib/puppeteer/puppeteer-core.js"));
  const { server, origin } = await serve();
  const browser = await puppeteer.launch({ executablePath: chromium.program, env: chromium.env, headless: "shell", args: ["--no-sandbox", "--disable-gpu"] });
  try {
    const links = new Map();
    const all = pages();
    say(`reading ${all.length} pages`);
    for (const path of all) await readPage(browser, origin, path, links);
    checkLinks(origin, links);
    await checkFormulas(browser, origin, ["start.html", "operations.html", "reference/index/functions/gatedDelta.html"].map((name) => base + name));
    await checkSearch(browser, origin);
  } finally {
    await browser.close();
    server.close();
  }
  process.stdout.write(`${results.passed} passed, ${results.failed} failed\n`);
  return results.failed === 0 ? 0 : 1;
});
