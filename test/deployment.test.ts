/** The texts of docs/deployment: a systemd unit, a container file, a Kubernetes manifest. */
import { describe, expect, test } from "bun:test";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { serve } from "../lib/cli/serve.ts";

const root = join(import.meta.dir, "..");
const textOf = (name: string): string => readFileSync(join(root, "docs/deployment", name), "utf8");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** Expects a command line of `gated-delta serve` to have only existing options, each with a value. */
function expectServe(args: readonly string[]): Map<string, string> {
  const options = new Map<string, string>();
  for (let i = 0; i < args.length; i += 2) {
    const [option, value] = args.slice(i, i + 2) as [string, string];
    expect([option, new RegExp(`^  ${option} [A-Z]`, "m").test(serve.help)]).toEqual([option, true]);
    expect([option, value === undefined || value.startsWith("--")]).toEqual([option, false]);
    options.set(option, value);
  }
  return options;
}

test("docs/server.md shows each of them", () => {
  const page = readFileSync(join(root, "docs/server.md"), "utf8");
  const shown = [...page.matchAll(/^<<< @\/deployment\/([\w.-]+)(?:\{\w+\})?$/gm)].map(([, name]) => name!);
  expect(shown.sort()).toEqual(readdirSync(join(root, "docs/deployment")).sort());
});

describe("the systemd unit", () => {
  /** Sections by name, and the settings of each; a setting may occur more than once. */
  const sections = new Map<string, Map<string, string[]>>();
  let section = new Map<string, string[]>();
  for (const line of textOf("gated-delta.service").split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [, name] = /^\[(\w+)\]$/.exec(line) ?? [];
    if (name !== undefined) sections.set(name, (section = new Map()));
    else {
      const [, key, value] = /^(\w+)=(.+)$/.exec(line)!;
      section.set(key!, [...(section.get(key!) ?? []), value!]);
    }
  }
  const service = sections.get("Service")!;

  test("has its sections, and settings once each", () => {
    expect([...sections.keys()]).toEqual(["Unit", "Service", "Install"]);
    for (const settings of sections.values()) for (const [key, values] of settings) expect([key, values.length]).toEqual([key, 1]);
    expect([service.get("KillSignal"), sections.get("Install")!.get("WantedBy")]).toEqual([["SIGTERM"], ["multi-user.target"]]);
  });

  test("starts the package's command with options that there are, and gives it the secret and folders that it names", () => {
    const [bun, command, verb, model, ...args] = service.get("ExecStart")![0]!.split(" ");
    expect([bun, verb, model]).toEqual(["/usr/local/bin/bun", "serve", "/srv/models/model"]);
    expect(command).toEndWith("node_modules/gated-delta/bin/gated-delta.mjs");
    const options = expectServe(args);
    expect(options.get("--host")).toBe("127.0.0.1");
    const [credential] = service.get("LoadCredential")![0]!.split(":");
    expect(options.get("--secret-file")).toBe(`%d/${credential}`);
    expect(options.get("--store")).toStartWith(`%S/${service.get("StateDirectory")![0]!}/`);
    expect(service.get("Environment")).toEqual([`GATED_DELTA_CACHE=%C/${service.get("CacheDirectory")![0]!}`]);
  });
});

describe("the container file", () => {
  const steps = textOf("Containerfile").split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => {
    const [, instruction, rest] = /^([A-Z]+) (.+)$/.exec(line)!;
    return [instruction!, rest!] as const;
  });
  const stepOf = (name: string): string => steps.find(([instruction]) => instruction === name)![1];

  test("begins from a version of Bun that the package takes, and does not run as root", () => {
    const [, version] = /^docker\.io\/oven\/bun:(\d+\.\d+)-slim$/.exec(stepOf("FROM"))!;
    expect(manifest.engines.bun).toStartWith(`>=${version}.`);
    expect([steps[0]![0], stepOf("USER"), stepOf("STOPSIGNAL")]).toEqual(["FROM", "bun", "SIGTERM"]);
    expect(steps.findIndex(([name]) => name === "USER")).toBeGreaterThan(steps.findIndex(([name]) => name === "RUN"));
  });

  test("installs the package, with its optional one for metrics, and starts its command", () => {
    expect(stepOf("RUN")).toBe("bun add gated-delta prom-client");
    expect([manifest.name, "prom-client" in manifest.peerDependencies, manifest.peerDependenciesMeta["prom-client"]]).toEqual(["gated-delta", true, { optional: true }]);
    const [bun, command, verb, model, ...args] = JSON.parse(stepOf("ENTRYPOINT")) as string[];
    expect([bun, command, verb, model]).toEqual(["bun", "node_modules/gated-delta/bin/gated-delta.mjs", "serve", "/model"]);
    const options = expectServe(args);
    expect([options.get("--host"), options.get("--port")]).toEqual(["0.0.0.0", stepOf("EXPOSE")]);
  });
});

describe("the Kubernetes manifest", () => {
  const objects = Bun.YAML.parse(textOf("kubernetes.yaml")) as any[];
  const find = (kind: string, name: string) => objects.find((object) => object.kind === kind && object.metadata.name === name);
  const server = find("Deployment", "gated-delta");
  const [container] = server.spec.template.spec.containers;

  test("is of objects with a version and a name", () => {
    const kinds = objects.map(({ apiVersion, kind, metadata: { name } }) => `${apiVersion} ${kind} ${name}`);
    expect(kinds).toEqual([
      "apps/v1 Deployment gated-delta",
      "apps/v1 Deployment gated-delta-redis",
      "v1 Service gated-delta-redis",
      "networking.k8s.io/v1 NetworkPolicy gated-delta-redis",
      "inference.networking.k8s.io/v1 InferencePool gated-delta",
      "gateway.networking.k8s.io/v1 HTTPRoute gated-delta",
    ]);
    for (const { spec } of objects.filter(({ kind }) => kind === "Deployment")) expect(spec.selector.matchLabels).toEqual(spec.template.metadata.labels);
  });

  test("runs servers that find the store and the secret, on the port of the container file", () => {
    const options = expectServe(container.args);
    const store = new URL(options.get("--store")!);
    const redis = find("Service", store.hostname);
    expect(redis.spec.ports[0]).toMatchObject({ port: Number(store.port), targetPort: "redis" });
    expect(redis.spec.selector).toEqual(find("Deployment", store.hostname).spec.template.metadata.labels);
    const { volumes } = server.spec.template.spec;
    for (const { name, mountPath } of container.volumeMounts) {
      expect([name, mountPath, volumes.filter((volume: any) => volume.name === name).length]).toEqual([name, mountPath, 1]);
    }
    expect(options.get("--secret-file")!.startsWith(`${container.volumeMounts.find(({ name }: any) => name === "secret").mountPath}/`)).toBe(true);
    expect(textOf("Containerfile")).toContain(`EXPOSE ${container.ports[0].containerPort}\n`);
    expect([container.readinessProbe.httpGet, container.startupProbe.httpGet]).toEqual([{ path: "/health", port: "http" }, { path: "/health", port: "http" }]);
    expect(server.spec.template.spec.terminationGracePeriodSeconds).toBeGreaterThan(60);
  });

  test("sends requests to these servers by a pool and its picker", () => {
    const pool = find("InferencePool", "gated-delta");
    expect(pool.spec.selector.matchLabels).toEqual(server.spec.template.metadata.labels);
    expect(pool.spec.targetPorts).toEqual([{ number: container.ports[0].containerPort }]);
    expect(pool.spec.endpointPickerRef).toEqual({ name: "gated-delta-picker", port: { number: 9002 }, failureMode: "FailOpen" });
    const route = find("HTTPRoute", "gated-delta");
    expect(route.spec.rules[0].backendRefs).toEqual([{ group: "inference.networking.k8s.io", kind: "InferencePool", name: pool.metadata.name }]);
    const policy = find("NetworkPolicy", "gated-delta-redis");
    expect([policy.spec.podSelector.matchLabels, policy.spec.ingress[0].from[0].podSelector.matchLabels]).toEqual([
      find("Deployment", "gated-delta-redis").spec.template.metadata.labels,
      server.spec.template.metadata.labels,
    ]);
  });
});
