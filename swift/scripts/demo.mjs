// `npm run demo`: set-up, then the command line's demo with the arguments given after `--`.
process.argv.splice(2, 0, "demo");
await import("./bin.mjs");
