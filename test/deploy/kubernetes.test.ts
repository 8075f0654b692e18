import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv, type AnySchemaObject } from "ajv";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { environment } from "#src/settings/known.ts";
import { readCompose } from "../harness/compose.ts";
import { repository } from "../harness/keyrun-process.ts";

const read = (path: string) => readFileSync(join(repository, path), "utf8");

// biome-ignore lint/suspicious/noExplicitAny: the schemas say what is in it.
type Manifest = any;

const files = globSync("deploy/kubernetes/*.yaml", { cwd: repository }).sort();
const manifests: { file: string; manifest: Manifest }[] = files.flatMap((file) =>
  parseAllDocuments(read(file)).map((document) => {
    if (!("toJS" in document) || document.errors.length > 0) throw new Error(`${file} is no YAML`);
    return { file, manifest: document.toJS() };
  }),
);
const one = (kind: string): Manifest => manifests.find(({ manifest }) => manifest.kind === kind)?.manifest;
const pod = () => one("Deployment").spec.template.spec;
const container = () => pod().containers[0];
const settings = (): Record<string, { value?: string; valueFrom?: object }> =>
  Object.fromEntries(container().env.map(({ name, ...rest }: { name: string }) => [name, rest]));

describe("the schemas of Kubernetes", () => {
  const { definitions } = JSON.parse(read("test/deploy/schemas/kubernetes/definitions.json"));
  const ajv = new Ajv({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: "kubernetes", definitions: strict(definitions) });
  const names: Record<string, string> = {
    "apps/v1 Deployment": "io.k8s.api.apps.v1.Deployment",
    "v1 Service": "io.k8s.api.core.v1.Service",
    "policy/v1 PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
    "networking.k8s.io/v1 NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
  };
  const errorsOf = (manifest: Manifest) => {
    const name = names[`${manifest.apiVersion} ${manifest.kind}`];
    const matches = ajv.getSchema(`kubernetes#/definitions/${name}`);
    if (!matches) throw new Error(`no schema for ${manifest.apiVersion} ${manifest.kind}`);
    return matches(manifest) ? [] : matches.errors;
  };

  test("allow each manifest", () => {
    expect(manifests.map(({ manifest }) => manifest.kind).sort()).toEqual([
      ...["Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "Service"],
    ]);
    for (const { file, manifest } of manifests) expect(errorsOf(manifest), file).toEqual([]);
  });

  test.each([
    {
      what: "a field that is mistyped",
      path: "spec.template.spec.containers.0",
      change: { readinesProbe: {} },
    },
    {
      what: "a value of another type",
      path: "spec.template.spec",
      change: { terminationGracePeriodSeconds: "30" },
    },
    {
      what: "a container without a name",
      path: "spec.template.spec.containers.0",
      change: { name: undefined },
    },
  ])("refuse $what", ({ path, change }) => {
    const wrong = structuredClone(one("Deployment"));
    const at = path.split(".").reduce((inner, key) => inner[key], wrong);
    Object.assign(at, change);
    for (const [key, value] of Object.entries(change)) if (value === undefined) delete at[key];
    expect(errorsOf(wrong)).not.toEqual([]);
  });
});

describe("the Deployment", () => {
  test("passes the restricted standard for pods", () => {
    expect(pod()).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 10001, seccompProfile: { type: "RuntimeDefault" } },
    });
    expect(container().securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    expect(Object.keys(pod()).filter((key) => /^host/.test(key))).toEqual([]);
  });

  test("has the user and the data folder of the image, and the version of the package", () => {
    const dockerfile = read("Dockerfile");
    const { runAsUser, runAsGroup } = pod().securityContext;
    expect(dockerfile).toContain(`\nUSER ${runAsUser}:${runAsGroup}\n`);
    expect(dockerfile).toContain(`\nVOLUME ${container().volumeMounts[0].mountPath}\n`);
    expect(container().image).toBe(`keyrun:${JSON.parse(read("package.json")).version}`);
  });

  test("is probed where Keyrun answers: /readyz for traffic, /healthz for life", () => {
    const { startupProbe, readinessProbe, livenessProbe } = container();
    const paths = [startupProbe, readinessProbe, livenessProbe].map(({ httpGet }) => httpGet);
    expect(paths).toEqual(["/healthz", "/readyz", "/healthz"].map((path) => ({ path, port: "http" })));
  });

  test("is killed after its drain, which is longer than the readiness probe needs to see it", () => {
    const { periodSeconds, failureThreshold, timeoutSeconds } = container().readinessProbe;
    const delayMs = Number(settings().KEYRUN_DRAIN_DELAY_MS?.value);
    expect(delayMs).toBeGreaterThan((periodSeconds * failureThreshold + timeoutSeconds) * 1_000);
    const drainMs = Number(
      environment.shape.KEYRUN_DRAIN_MS_MAX.parse(settings().KEYRUN_DRAIN_MS_MAX?.value),
    );
    expect(pod().terminationGracePeriodSeconds * 1_000).toBeGreaterThanOrEqual(delayMs + drainMs + 5_000);
  });

  test("has the settings of compose.yaml, which a test starts, and takes its secrets by reference", () => {
    const ofCompose = readCompose().services["keyrun-1"]!.environment!;
    const { POD_IP, ...own } = settings();
    expect(POD_IP?.valueFrom).toEqual({ fieldRef: { fieldPath: "status.podIP" } });
    expect(Object.keys(own).sort()).toEqual(Object.keys(ofCompose).sort());
    const values = Object.fromEntries(Object.entries(own).map(([name, { value }]) => [name, value]));
    expect(values).toEqual({
      ...Object.fromEntries(
        Object.entries(ofCompose).map(([name, value]) => [
          name,
          value.replace("/run/secrets/", "/run/secrets/keyrun/"),
        ]),
      ),
      KEYRUN_ADVERTISE_ADDRESS: "$(POD_IP):8081",
      KEYRUN_DRAIN_DELAY_MS: "10000",
    });
    // Pods of a cluster may have IPv6 alone, and others IPv4 alone.
    expect(values.KEYRUN_GRPC_HOST).toBe("::");
    expect(read("Dockerfile")).toContain("\nENV KEYRUN_HOST=:: ");
    // Kubernetes would set KEYRUN_PORT to the address of the Service.
    expect(pod().enableServiceLinks).toBe(false);
    expect(pod().volumes[1]).toMatchObject({ secret: { secretName: "keyrun", defaultMode: 0o440 } });
  });
});

test("the budget, the services and the policy choose the pods of the Deployment, and its ports", () => {
  const labels = one("Deployment").spec.template.metadata.labels;
  const selectors = manifests.map(({ manifest: { spec } }) => spec.selector ?? spec.podSelector);
  expect(selectors.map((selector) => selector.matchLabels ?? selector)).toEqual(selectors.map(() => labels));
  const ports = container().ports.map(({ name }: { name: string }) => name);
  const services = manifests.filter(({ manifest }) => manifest.kind === "Service");
  expect(services.map(({ manifest }) => manifest.spec.ports[0].targetPort)).toEqual(ports);
  expect(one("PodDisruptionBudget").spec.maxUnavailable).toBeLessThan(one("Deployment").spec.replicas);
});

test("the chart of Helm has each line of the manifests, but for those that its values make", () => {
  const withoutNames = (line: string) =>
    line.replace(/(app\.kubernetes\.io\/name: |^name: )(keyrun|\{\{ \.Release\.Name \}\})/, "$1…");
  const linesOf = (glob: string) =>
    globSync(glob, { cwd: repository })
      .flatMap((file) => read(file).split("\n"))
      .map((line) => withoutNames(line.trim()))
      .filter((line) => line !== "" && line !== "---" && !line.startsWith("#"));
  const chart = new Set(linesOf("deploy/helm/templates/*.yaml"));
  const others = linesOf("deploy/kubernetes/*.yaml").filter((line) => !chart.has(line));
  expect(others.sort()).toEqual([
    '- { name: KEYRUN_DRAIN_DELAY_MS, value: "10000" }',
    '- { name: KEYRUN_GRPC_PLAINTEXT, value: "true" }',
    '- { name: KEYRUN_TRUST_PROXY, value: "1" }',
    "fsGroup: 10001",
    `image: keyrun:${JSON.parse(read("package.json")).version}`,
    "limits: { memory: 1Gi }",
    "replicas: 2",
    "requests: { cpu: 500m, memory: 400Mi }",
    "resources:",
    "runAsGroup: 10001",
    "runAsUser: 10001",
    "secret: { secretName: keyrun, defaultMode: 288 }",
    "terminationGracePeriodSeconds: 30",
  ]);
});

/** As the API server reads it: refuses a field that no definition has, and a port may be a name. */
function strict(definitions: Record<string, AnySchemaObject>): Record<string, AnySchemaObject> {
  return Object.fromEntries(
    Object.entries(definitions).map(([name, definition]) => {
      if (name.endsWith(".IntOrString")) return [name, { type: ["string", "integer"] }];
      return [name, { ...definition, ...(definition.properties && { additionalProperties: false }) }];
    }),
  );
}
