import { execFileSync, spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { repository } from "../harness/keyrun-process.ts";

// biome-ignore lint/suspicious/noExplicitAny: manifests, whose fields the tests name.
type Manifest = any;

const isMissing = spawnSync("helm", ["version"]).status !== 0;

function helm(...args: string[]): string {
  return execFileSync("helm", args, { cwd: repository, encoding: "utf8" });
}

function rendered(release: string, ...args: string[]): Manifest[] {
  return sorted(helm("template", release, "deploy/helm", ...args));
}

/** The manifests of a text by kind and name, with the settings in one order. */
function sorted(yaml: string): Manifest[] {
  const manifests: Manifest[] = parseAllDocuments(yaml).map((document) => document.toJS());
  for (const { spec } of manifests) {
    for (const { env } of spec.template?.spec.containers ?? [])
      env.sort((one: { name: string }, other: { name: string }) => one.name.localeCompare(other.name));
  }
  const place = ({ kind, metadata }: Manifest) => `${kind} ${metadata.name}`;
  return manifests.sort((one, other) => place(one).localeCompare(place(other)));
}

describe.skipIf(isMissing)(`the chart${isMissing ? " (left out: there is no helm)" : ""}`, () => {
  test("passes helm lint", () => {
    expect(helm("lint", "--strict", "deploy/helm")).toContain("1 chart(s) linted, 0 chart(s) failed");
  });

  test("makes the manifests of deploy/kubernetes", () => {
    const files = globSync("deploy/kubernetes/*.yaml", { cwd: repository });
    const yaml = files.map((file) => readFileSync(join(repository, file), "utf8")).join("\n---\n");
    expect(rendered("keyrun")).toEqual(sorted(yaml));
  });

  test("leaves user and group out for OpenShift, which gives its own, and keeps the rest", () => {
    const securityOf = (...args: string[]) =>
      rendered("keyrun", ...args)[0].spec.template.spec.securityContext;
    const others = { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } };
    expect(securityOf("--set", "user=null")).toEqual(others);
    expect(securityOf("--set", "user.runAsUser=null,user.fsGroup=1000680000")).toEqual({
      ...others,
      ...{ runAsGroup: 10001, fsGroup: 1000680000 },
    });
  });

  test("makes another fleet under another name, with other values", () => {
    const values = [
      ...["replicas=3", "image.repository=registry.example/keyrun", "image.tag=1.2.3"],
      ...["settings.KEYRUN_TRUST_PROXY=2", "settings.KEYRUN_LOG_LEVEL=debug", "secretName=other"],
      ...["image.pullSecrets[0].name=registry", "podAnnotations.team=a", "tolerations[0].operator=Exists"],
      ...["volumes[0].name=tls", "volumes[0].secret.secretName=tls", "nodeSelector.zone=a"],
      ...["volumeMounts[0].name=tls", "volumeMounts[0].mountPath=/tls"],
    ];
    const [deployment, policy, budget, ...services] = rendered("blue", "--set", values.join(","));
    const names = [deployment, policy, budget, ...services].map(({ metadata }) => metadata.name);
    expect(names).toEqual(["blue", "blue", "blue", "blue", "blue-internal"]);
    const labels = { "app.kubernetes.io/name": "blue" };
    const chosen = [deployment, policy, budget].map(({ spec }) => spec.selector ?? spec.podSelector);
    expect(chosen.map(({ matchLabels }) => matchLabels)).toEqual([labels, labels, labels]);
    expect(services.map(({ spec }) => spec.selector)).toEqual([labels, labels]);
    const { replicas, template } = deployment.spec;
    const { containers, volumes, ...pod } = template.spec;
    expect([replicas, template.metadata]).toEqual([3, { labels, annotations: { team: "a" } }]);
    expect(pod).toMatchObject({
      imagePullSecrets: [{ name: "registry" }],
      nodeSelector: { zone: "a" },
      tolerations: [{ operator: "Exists" }],
    });
    expect(containers[0].image).toBe("registry.example/keyrun:1.2.3");
    expect(containers[0].env).toEqual(
      expect.arrayContaining([
        { name: "KEYRUN_TRUST_PROXY", value: "2" },
        { name: "KEYRUN_LOG_LEVEL", value: "debug" },
      ]),
    );
    expect(containers[0].volumeMounts[2]).toEqual({ name: "tls", mountPath: "/tls" });
    expect(volumes.slice(1)).toEqual([
      { name: "secrets", secret: { secretName: "other", defaultMode: 0o440 } },
      { name: "tls", secret: { secretName: "tls" } },
    ]);
  });
});
