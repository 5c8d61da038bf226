// Checks that need a browser: that pages come alive without an error, fit a telephone, show their formulas and plots, and are found.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { rootFolder } from "../../swift/scripts/root.mjs";
import { findChromium } from "./chromium.mjs";

const desk = { width: 1280, height: 900 };
const telephone = { width: 390, height: 844, isMobile: true };

export async function openBrowser() {
  const chromium = await findChromium();
  const require = createRequire(join(rootFolder, "docs", ".vitepress", "package.json"));
  const { default: puppeteer } = await import(join(dirname(require.resolve("puppeteer-core/package.json")), "lib/puppeteer/puppeteer-core.js"));
  return puppeteer.launch({ executablePath: chromium.program, env: chromium.env, headless: "shell", args: ["--no-sandbox", "--disable-gpu"] });
}

/** A tab that collects errors. It says that data is to be saved, so that the site fetches no page ahead of its reader. */
async function openTab(browser, viewport, scheme = "light") {
  const page = await browser.newPage();
  const problems = [];
  page.on("console", (message) => { if (message.type() === "error") problems.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("response", (response) => { if (response.status() >= 400) problems.push(`${response.status()} ${response.url()}`); });
  await page.evaluateOnNewDocument(() => Object.defineProperty(navigator, "connection", { value: { saveData: true } }));
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setViewport(viewport);
  return { page, problems };
}

/** Opens a page and waits until its scripts have taken it over. */
async function visit(page, url) {
  await page.goto(url, { waitUntil: "load" });
  await page.waitForFunction(() => document.querySelector("#app")?.__vue_app__ !== undefined, { polling: 20, timeout: 30_000 });
}

/** Measurements of the open page. */
function measure() {
  const box = (element) => element.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  /** The straight parts of a path of "M x y", "V y" and "H x", on the screen; a diagram's other lines are left out. */
  const segmentsOf = (scale, left, top) => (path) => {
    const drawn = /^M([\d.]+) ([\d.]+)([VH])([\d.]+)$/.exec(path.getAttribute("d"));
    if (drawn === null) return [];
    const [x, y, end] = [drawn[1], drawn[2], drawn[4]].map(Number);
    const to = drawn[3] === "V" ? [x, end] : [end, y];
    return [{ left: left + scale * Math.min(x, to[0]), right: left + scale * Math.max(x, to[0]), top: top + scale * Math.min(y, to[1]), bottom: top + scale * Math.max(y, to[1]) }];
  };
  const crosses = (line, text) => line.left < text.right - 1 && line.right > text.left + 1 && line.top < text.bottom - 3 && line.bottom > text.top + 3;
  /** Letters below 9 pixels, text beyond the picture's border, on other text or under a line, or hardly any contrast with the page. */
  const isUnreadable = (svg) => {
    const { left, right, top, bottom } = box(svg);
    const texts = [...svg.querySelectorAll("text")].map((text) => ({ ...box(text).toJSON(), fill: getComputedStyle(text).fill, size: parseFloat(getComputedStyle(text).fontSize) }));
    const light = (color) => { const [r, g, b] = color.match(/[\d.]+/g).map(Number); return (0.3 * r + 0.6 * g + 0.1 * b) / 255; };
    const page = light(getComputedStyle(document.body).backgroundColor);
    const scale = box(svg).width / svg.viewBox.baseVal.width;
    const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 2 || b.bottom <= a.top + 2;
    const lines = [...svg.querySelectorAll("path.l, path.m")].flatMap(segmentsOf(scale, left, top));
    return texts.length === 0 || right > room || texts.some((text) => lines.some((line) => crosses(line, text))) || texts.some((text, i) =>
      text.size * scale < 9 || text.left < left || text.right > right + 1 || text.top < top || text.bottom > bottom + 1 ||
      Math.abs(light(text.fill) - page) < 0.35 || texts.slice(i + 1).some((other) => !apart(text, other)));
  };
  return {
    wide: document.documentElement.scrollWidth,
    room,
    small: [...document.querySelectorAll("main p, main li, main td")].filter((part) => part.innerText !== "" && parseFloat(getComputedStyle(part).fontSize) < 13).length,
    pictures: [...document.querySelectorAll("main img")].filter((image) => image.naturalWidth === 0 || box(image).width > room).map(({ src }) => src),
    figures: [...document.querySelectorAll(".picture svg")].filter(isUnreadable).map((svg) => svg.getAttribute("aria-label")),
    clipped: [...document.querySelectorAll("main div[class*='language-'] pre")].filter((code) => code.scrollWidth > code.clientWidth + 1).map((code) => code.innerText.slice(0, 40)),
    formulas: [...document.querySelectorAll("mjx-container svg")].filter((formula) => box(formula).height < 5 || box(formula).width < 3).length,
  };
}

/** Reads pages on several telephones at a time and, where `alsoWide` says so, at a desk in the dark; tells what is wrong with each. */
export async function readPages(browser, urls, alsoWide) {
  const found = new Map(urls.map((url) => [url, []]));
  const left = urls.flatMap((url) => [{ url, viewport: telephone, scheme: "light" }, ...(alsoWide(url) ? [{ url, viewport: desk, scheme: "dark" }] : [])]);
  left.sort((a, b) => b.viewport.width - a.viewport.width);
  await Promise.all(Array.from({ length: 4 }, async () => {
    let tab;
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      const { url, viewport, scheme } = next;
      if (tab?.viewport !== viewport) {
        await tab?.page.close();
        tab = { ...(await openTab(browser, viewport, scheme)), viewport };
      }
      try {
        await visit(tab.page, url);
        const { wide, room, small, pictures, figures, formulas, clipped } = await tab.page.evaluate(measure);
        if (wide > room) tab.problems.push(`${wide} pixels wide on a screen of ${room}`);
        if (small > 0) tab.problems.push(`${small} paragraphs, items or cells in letters smaller than 13 pixels`);
        if (formulas > 0) tab.problems.push(`${formulas} formulas that don't show`);
        for (const code of clipped) tab.problems.push(`code that is cut off: ${code}`);
        for (const figure of figures) tab.problems.push(`a picture that can't be read: ${figure}`);
        for (const picture of pictures) tab.problems.push(`a picture that does not show, or not whole: ${picture}`);
      } catch (error) {
        tab.problems.push(String(error));
      }
      found.get(url).push(...tab.problems.splice(0).map((problem) => `${viewport.width} pixels: ${problem}`));
    }
    await tab?.page.close();
  }));
  return found;
}

/** Types a word into the site's search; returns the addresses found and what went wrong. */
export async function search(browser, url, word) {
  const { page, problems } = await openTab(browser, desk);
  await visit(page, url);
  await page.click(".DocSearch-Button");
  await page.waitForSelector("#localsearch-input", { timeout: 30_000 });
  await page.type("#localsearch-input", word);
  await page.waitForSelector("#localsearch-list li a", { timeout: 30_000 }).catch(() => problems.push("nothing was found"));
  const found = await page.$$eval("#localsearch-list li a", (links) => links.map((link) => link.href));
  await page.close();
  return { found, problems };
}
