/** The linter: rules of Apple's compiler and devices that neither C++ compile finds, and the project's own. */
import type { Problem } from "../check.ts";
import type { Unit } from "../frontend/unit.ts";
import { argumentRules } from "./arguments.ts";
import { kernelRules } from "./kernels.ts";
import { languageRules } from "./language.ts";
import type { LintOptions, Rule } from "./rule.ts";
import { spaceRules } from "./spaces.ts";

export const rules: readonly Rule[] = [...spaceRules, ...kernelRules, ...argumentRules, ...languageRules];

/** How this project's host compiles, and the oldest GPU that it supports. */
export const defaults: LintOptions = { mathMode: "safe", appleFamily: 7 };

export function lint(unit: Unit, options: LintOptions = defaults): Problem[] {
  const problems: Problem[] = [];
  const seen = new Set<string>();
  for (const rule of rules) {
    rule.check(
      unit,
      (place, message) => {
        // A header that several files include is read once for each.
        const key = `${place.file}:${place.line}:${rule.name}:${message}`;
        if (seen.has(key)) return;
        seen.add(key);
        problems.push({ file: place.file, line: place.line, rule: rule.name, message });
      },
      options,
    );
  }
  return problems;
}
