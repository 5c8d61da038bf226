// A private registry on loopback: verdaccio in a temporary folder, with no other registry behind it. It has only the packages
// that are published to it.
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { run, tail } from "../../swift/scripts/exec.mjs";
import { Failure } from "../../swift/scripts/report.mjs";
import { tool } from "../tools.mjs";

/** A free port. */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Starts the registry with its files in `folder`. Returns its address and functions to publish to it and to end it. */
export async function startRegistry(folder) {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/`;
  // JSON is valid YAML.
  const config = {
    storage: join(folder, "storage"),
    auth: { htpasswd: { file: join(folder, "htpasswd") } },
    uplinks: {},
    packages: { "**": { access: "$all", publish: "$all", unpublish: "$all" } },
    max_body_size: "100mb",
    log: { type: "stdout", format: "json", level: "warn" },
  };
  const configFile = join(folder, "config.yaml");
  writeFileSync(configFile, JSON.stringify(config));
  // npm requires a token even if anyone may publish.
  const userConfig = join(folder, "npmrc");
  writeFileSync(userConfig, `registry=${url}\n//127.0.0.1:${port}/:_authToken=any\n`);
  const env = { ...withoutNpm(process.env), npm_config_userconfig: userConfig, npm_config_cache: join(folder, "cache"), npm_config_update_notifier: "false" };

  const child = spawn(process.execPath, [tool("verdaccio", "bin/verdaccio"), "--config", configFile, "--listen", `127.0.0.1:${port}`], { stdio: ["ignore", "pipe", "pipe"], env, cwd: folder });
  let said = "";
  let ended = false;
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (said = (said + text).slice(-4000)));
  child.on("close", () => (ended = true));
  for (let tries = 0; ; tries++) {
    if (ended || tries > 600) throw new Failure(`the registry did not start:\n${tail(said)}`);
    if (await answers(url)) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }

  const npm = async (args, doing, cwd = folder) => {
    const { code, text } = await run("npm", [...args, "--loglevel=error"], { env, cwd });
    if (code !== 0) throw new Failure(`${doing} failed:\n${tail(text, 30)}`);
  };
  let packed = 0;
  return {
    url,
    /** Packs a folder as npm does, without running its scripts, and publishes the archive. Returns the archive. */
    async publish(source) {
      const target = join(folder, `packed-${packed++}`);
      mkdirSync(target);
      await npm(["pack", source, "--pack-destination", target, "--ignore-scripts"], `packing ${source}`);
      const archive = join(target, readdirSync(target)[0]);
      await npm(["publish", archive, "--ignore-scripts", "--provenance=false"], `publishing ${archive}`);
      return archive;
    },
    stop() {
      child.kill();
    },
  };
}

async function answers(url) {
  try {
    return (await fetch(`${url}-/ping`)).ok;
  } catch {
    return false;
  }
}

/** The variables that an outer `npm run` sets would be settings for the npm that runs here. */
function withoutNpm(env) {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !/^npm_/i.test(name)));
}
