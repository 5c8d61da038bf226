// `npm run setup`: everything that the demo and the tests need, and nothing else.
import { rootFolder } from "./root.mjs";
import { elapsed, runMain, say } from "./report.mjs";
import { setUp } from "./steps.mjs";

await runMain(async () => {
  await setUp(rootFolder);
  say(`ready (${elapsed()})`);
  return 0;
});
