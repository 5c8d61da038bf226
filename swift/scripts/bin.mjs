#!/usr/bin/env node
// The `gated-delta` command. In an installed package nothing is set up: the library comes with it or is named by
// GATED_DELTA_LIBRARY.
import { runCommandLine } from "./command-line.mjs";
import { runMain } from "./report.mjs";

const args = process.argv.slice(2);
await runMain(() => runCommandLine("lib/cli/main.ts", args, { reportsSetUp: args[0] === "doctor" }));
