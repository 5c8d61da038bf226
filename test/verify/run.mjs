// `npm run verify`: set-up, then the check of golden files in Bun with the arguments given after `--`.
import { runMain } from "../../swift/scripts/report.mjs";
import { runCommandLine } from "../../swift/scripts/command-line.mjs";

await runMain(() => runCommandLine("test/verify/main.ts", process.argv.slice(2)));
