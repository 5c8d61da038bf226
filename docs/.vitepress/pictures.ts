// Pictures become a part of the page, so that they follow the switch between light and dark, which a file behind <img> can't see.
// As a file of its own each of them is whole: its <style> has the colours for light and, by media query, for dark.
import { readFileSync } from "node:fs";
import { basename } from "node:path";

/** The SVG file as a part of a page. Its style is nested under a class of its own. */
export function picture(path: URL): string {
  const svg = readFileSync(path, "utf8");
  const name = `picture-${basename(path.pathname, ".svg")}`;
  const style = /<style>([\s\S]*?)<\/style>/.exec(svg)?.[1] ?? "";
  const dark = /@media \(prefers-color-scheme: dark\) \{([\s\S]*)\}\s*$/.exec(style);
  const light = dark === null ? style : style.slice(0, dark.index);
  const rules = `.${name} { ${light} } .dark .${name} { ${dark?.[1] ?? ""} }`.replace(/\s+/g, " ");
  const drawing = svg.replace(/<style>[\s\S]*?<\/style>/, "").trim();
  // A template of Vue leaves <style> out, and not a component that is called so. The picture is a span: it stands in a paragraph.
  return `<span class="picture ${name}"><component :is="'style'">${rules}</component><span v-pre>${drawing}</span></span>`;
}
