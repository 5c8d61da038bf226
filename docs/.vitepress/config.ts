// The site: guides of this folder, and the reference that TypeDoc writes into reference/ before this runs (docs/build.mjs).
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitepress";
import { picture } from "./pictures.ts";

const sidebarFile = new URL("../reference/typedoc-sidebar.json", import.meta.url);
const reference = existsSync(sidebarFile) ? JSON.parse(readFileSync(sidebarFile, "utf8")) : [];

/** The pages lie outside of the folder that has the tools, so what they import is named here. */
const inVue = (path: string) => fileURLToPath(new URL(`./node_modules/vue/${path}`, import.meta.url));
const alias = [
  { find: /^vue$/, replacement: inVue("dist/vue.runtime.esm-bundler.js") },
  { find: /^vue\/server-renderer$/, replacement: inVue("server-renderer/index.mjs") },
];

/** The folder of the site on its server, such as /gated-delta/ on GitHub Pages. */
const base = process.env.GATED_DELTA_DOCS_BASE ?? "/";

/**
 * Guides come before the members of the reference, whose headings are the words that are looked for. The function runs in the
 * reader's browser, so that it names nothing from outside. A misspelt letter is allowed in words of five letters or more.
 */
const searchOptions = {
  fuzzy: 0.1,
  boostDocument: (id: string) => (id.includes("/reference/") ? 1 : 5),
};

export default defineConfig({
  vite: { resolve: { alias } },
  title: "GatedDelta",
  description: "Fused Gated DeltaNet operations for Bun, over Metal and the CPU, in memory that JavaScript shares",
  base,
  head: [["link", { rel: "icon", type: "image/svg+xml", href: `${base}favicon.svg` }]],
  outDir: "../.build/site",
  cacheDir: "../.build/site-cache",
  srcExclude: ["node_modules/**", "examples/**", "test/**", "pictures/**"],
  lastUpdated: false,
  cleanUrls: false,
  markdown: {
    math: true,
    // The documentation in the sources writes formulas as fences named "math", which editors show as they are.
    config(md) {
      const fence = md.renderer.rules.fence!;
      md.renderer.rules.fence = (tokens, index, options, env, self) => {
        const token = tokens[index]!;
        if (token.info.trim() !== "math") return fence(tokens, index, options, env, self);
        return md.render(`$$\n${token.content.trim()}\n$$`);
      };
      const image = md.renderer.rules.image!;
      md.renderer.rules.image = (tokens, index, options, env, self) => {
        const source = tokens[index]!.attrGet("src") ?? "";
        return source.endsWith(".svg") ? picture(new URL(`../${source}`, import.meta.url)) : image(tokens, index, options, env, self);
      };
    },
  },
  themeConfig: {
    logo: "/favicon.svg",
    search: { provider: "local", options: { miniSearch: { searchOptions } } },
    outline: [2, 3],
    nav: [
      { text: "Guide", link: "/start" },
      { text: "Reference", link: "/reference/" },
    ],
    sidebar: {
      "/reference/": [{ text: "Reference", items: reference }],
      "/": [
        {
          text: "Guide",
          items: [
            { text: "Start here", link: "/start" },
            { text: "Why this, and when not", link: "/why" },
            { text: "From a checkpoint to text", link: "/model" },
            { text: "States for agents", link: "/states" },
            { text: "In a server", link: "/server" },
            { text: "A mixer from a checkpoint", link: "/layer" },
            { text: "States of your own models", link: "/pools" },
            { text: "Choosing an operation", link: "/operations" },
            { text: "Memory and errors", link: "/memory" },
            { text: "Install and commands", link: "/install" },
          ],
        },
        {
          text: "Background",
          items: [
            { text: "Equal bits", link: "/bits" },
            { text: "Speed", link: "/speed" },
            { text: "Metal, proven without a Mac", link: "/metal" },
          ],
        },
        { text: "Reference", items: [{ text: "All exports", link: "/reference/" }] },
      ],
    },
  },
});
