/** The program of `npm run verify`. */
import { runCommand, runProgram } from "../../lib/cli/run-command.ts";
import { verify } from "./command.ts";

await runProgram(() => runCommand(verify, { name: "npm run verify", help: "npm run verify -- --help" }, process.argv.slice(2)));
