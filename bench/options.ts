/** The options of `npm run bench`. */
import { parseArgs } from "node:util";

export interface Options {
  readonly json: boolean;
  readonly quick: boolean;
  readonly list: boolean;
  readonly filter: RegExp | undefined;
  readonly compare: string | undefined;
  readonly picture: string | undefined;
  readonly markdown: string | undefined;
  readonly metal: boolean;
  readonly receipt: string | undefined;
}

export const usage = `npm run bench -- [options]
  --filter EXPRESSION  only benchmarks whose names match it, such as 'gatedDelta/f32/B1/.*t1/cold'
  --quick              a few samples each: says whether it runs, not how fast
  --json               one object a line instead of a table
  --compare FILE       ratios to an earlier --json output: above 1 is faster now
  --picture FILE       an SVG of what part of its limit each op reaches
  --markdown FILE      the results as a table for a document
  --metal              the GPU's benchmarks alone (on a Mac they follow the others)
  --receipt FOLDER     writes what was measured, and on what (on a Mac a whole run writes into test/receipts)
  --list               names only`;

/** Reads arguments; returns a string, the error message, if one is wrong. */
export function readOptions(args: readonly string[]): Options | string {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        json: { type: "boolean", default: false },
        quick: { type: "boolean", default: false },
        list: { type: "boolean", default: false },
        filter: { type: "string" },
        compare: { type: "string" },
        picture: { type: "string" },
        markdown: { type: "string" },
        metal: { type: "boolean", default: false },
        receipt: { type: "string" },
      },
    });
    const { json, quick, list, filter, compare, picture, markdown, metal, receipt } = values;
    return {
      json,
      quick,
      list,
      filter: filter === undefined ? undefined : new RegExp(filter),
      compare,
      picture,
      markdown,
      metal,
      receipt,
    };
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
