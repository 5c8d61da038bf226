// `npm run test:docs`: builds the site and reads it, as files and in headless Chromium. The last line is "N passed, N failed".
import { join } from "node:path";
import { run } from "../../swift/scripts/exec.mjs";
import { runMain, say } from "../../swift/scripts/report.mjs";
import { rootFolder } from "../../swift/scripts/root.mjs";
import { openBrowser, readPages as readInBrowser, search } from "./browser.mjs";
import { base, linkProblems, readPages, serve } from "./site.mjs";

const results = { passed: 0, failed: 0 };

function check(name, problems) {
  if (problems.length === 0) results.passed++;
  else {
    results.failed++;
    process.stdout.write(`not ok: ${name}\n${problems.map((problem) => `  ${problem}\n`).join("")}`);
  }
}

/** Pages that must show formulas or pictures: what each has at the least. */
const expected = [
  { name: "index.html", pictures: 1, programs: 1 },
  { name: "start.html", formulas: 1, pictures: 1 },
  { name: "states.html", pictures: 4 },
  { name: "server.html", pictures: 1 },
  { name: "speed.html", pictures: 3 },
  { name: "operations.html", formulas: 12 },
  { name: "reference/model/interfaces/SamplingOptions.html", formulas: 1 },
];

/** Checks the first hit of a search: a guide, unless a word is the name of one export. */
const searches = [
  { word: "fork", first: /\/states\.html#fork$/ },
  { word: "session", first: /\/model\.html#sessions$/ },
  { word: "cache", first: /\/(?:states|server|model)\.html/ },
  { word: "drafts", first: /\/(?:states|pools)\.html#drafts$/ },
  { word: "generate", first: /^(?!.*\/reference\/)/ },
  { word: "SamplingOptions", first: /\/reference\/model\/interfaces\/SamplingOptions\.html/ },
  { word: "StateHandle", first: /\/reference\/index\/classes\/StateHandle\.html/ },
];

/** Every operation's page has a formula; the other functions are these. */
const isOperation = (name) => /^reference\/\w+\/functions\//.test(name) && !/\/(?:(?:en|de)codeBf16|libraryInfo|createHandler|languageModel|openStore)\.html$/.test(name);

await runMain(async () => {
  const built = await run(process.execPath, [join(rootFolder, "docs", "build.mjs")], { cwd: rootFolder, output: (line) => process.stdout.write(`${line}\n`) });
  if (built.code !== 0) return built.code ?? 1;

  const pages = readPages();
  for (const [name, { problems }] of pages) check(name, [...problems, ...linkProblems(name, pages)]);
  const operations = [...pages.keys()].filter(isOperation).map((name) => ({ name, formulas: 1 }));
  for (const { name } of operations) check(`errors of ${name}`, pages.get(name).errors.includes("GatedDeltaError") ? [] : ["no link to GatedDeltaError"]);
  check("pages of operations", operations.length === 21 ? [] : [`${operations.length} of 21`]);
  for (const { name, formulas = 0, pictures = 0, programs = 0 } of [...expected, ...operations]) {
    const page = pages.get(name) ?? { formulas: 0, pictures: 0, programs: 0 };
    check(`what ${name} shows`, page.formulas >= formulas && page.pictures >= pictures && page.programs >= programs ? [] : [`${page.formulas} formulas of ${formulas}, ${page.pictures} pictures of ${pictures}, ${page.programs} programs of ${programs}`]);
  }
  for (const [name, { icon }] of pages) if (icon !== `${base}favicon.svg`) check(`the icon of ${name}`, [`${icon}`]);

  say(`reading ${pages.size} pages in a browser`);
  const { server, origin } = await serve();
  const browser = await openBrowser();
  try {
    const guide = (url) => !url.includes("/reference/");
    const found = await readInBrowser(browser, [...pages.keys()].map((name) => `${origin}${base}${name}`), guide);
    for (const [url, problems] of found) check(`${url.slice(origin.length)} in a browser`, problems);
    for (const { word, first } of searches) {
      const { found: hits, problems } = await search(browser, `${origin}${base}start.html`, word);
      if (!first.test(hits[0] ?? "")) problems.push(`found first ${hits.slice(0, 3).join(" ") || "nothing"}`);
      check(`search for ${word}`, problems);
    }
  } finally {
    await browser.close();
    server.close();
  }
  process.stdout.write(`${results.passed} passed, ${results.failed} failed\n`);
  return results.failed === 0 ? 0 : 1;
});
