// `npm run test:page`: the server's page in headless Chromium, which is fetched if there is none.
import { join } from "node:path";
import { findChromium } from "../../docs/test/chromium.mjs";
import { run } from "../../swift/scripts/exec.mjs";
import { runMain } from "../../swift/scripts/report.mjs";
import { rootFolder } from "../../swift/scripts/root.mjs";

await runMain(async () => {
  const { program, env } = await findChromium();
  const bun = join(rootFolder, "node_modules", ".bin", "bun");
  const { code } = await run(bun, ["test", "--timeout", "120000", "test/server/page.test.ts"], { cwd: rootFolder, env: { ...env, GATED_DELTA_CHROMIUM: program }, output: (line) => process.stdout.write(`${line}\n`) });
  return code ?? 1;
});
