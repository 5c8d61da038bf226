#!/usr/bin/env node
// The `gated-delta` command of a clone.
import { runCommandLine } from "./command-line.mjs";
import { runMain } from "./report.mjs";

const args = process.argv.slice(2);
await runMain(() => runCommandLine("lib/cli/main.ts", args, { reportsSetUp: args[0] === "doctor" }));
