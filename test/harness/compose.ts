import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { ContainerOptions } from "../campaigns/image/container.ts";
import { repository } from "./keyrun-process.ts";

/** compose.yaml, with its anchors and merges resolved. */
export interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly networks: Readonly<Record<string, object | null>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
  readonly configs: Readonly<Record<string, { readonly file: string }>>;
}

/** The fields that compose.yaml uses. `containerOf` refuses others. */
export interface Service {
  readonly image: string;
  readonly build?: string;
  readonly user?: string;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly working_dir?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly secrets?: readonly string[];
  readonly configs?: readonly { readonly source: string; readonly target: string }[];
  readonly volumes?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly restart?: string;
  readonly networks?: readonly string[] | Readonly<Record<string, Attachment>>;
  readonly ports?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly stop_signal?: NodeJS.Signals;
  readonly stop_grace_period?: string;
  readonly depends_on?: unknown;
  readonly deploy?: { readonly resources: { readonly limits: Readonly<Record<string, unknown>> } };
  readonly logging?: object;
}

/** What a service is in one network. */
interface Attachment {
  readonly aliases?: readonly string[];
}

export function readCompose(): Compose {
  return parse(readFileSync(join(repository, "compose.yaml"), "utf8"), { merge: true }) as Compose;
}

/** What the containers of the tests do as compose.yaml says. */
const done = [
  ...["image", "user", "entrypoint", "command", "working_dir", "environment", "secrets", "configs"],
  ...["tmpfs", "read_only", "cap_drop", "security_opt"],
];
/** What the tests themselves do, or what only an engine could. */
const left = [
  ...["build", "restart", "networks", "ports", "healthcheck", "stop_signal", "stop_grace_period"],
  ...["depends_on", "deploy", "logging", "volumes"],
];

/** What the image says, for the fields that the service leaves out. */
export interface ImageDefaults {
  readonly rootfs: string;
  readonly user?: string;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** The container of a service. `folder` has the files that compose.yaml names. */
export function containerOf(
  { services, secrets, configs }: Compose,
  { name, image, folder }: { name: string; image: ImageDefaults; folder: string },
): Omit<ContainerOptions, "network" | "folder"> {
  const service = services[name];
  if (!service) throw new Error(`compose.yaml has no service ${name}`);
  const unknown = Object.keys(service).filter((field) => ![...done, ...left].includes(field));
  if (unknown.length > 0) throw new Error(`the tests do nothing for ${unknown.join(", ")} of ${name}`);
  const { cap_drop, security_opt, user = image.user } = service;
  // startContainer does both for each container.
  if (cap_drop?.join() !== "ALL" || security_opt?.join() !== "no-new-privileges:true" || !user) {
    throw new Error(`${name} would run with more rights than the containers of the tests`);
  }
  const { entrypoint = image.entrypoint ?? [], command = image.command ?? [] } = service;
  const files = [
    ...(service.secrets ?? []).map((each) => ({ file: secrets[each]!.file, target: `/run/secrets/${each}` })),
    ...(service.configs ?? []).map(({ source, target }) => ({ file: configs[source]!.file, target })),
  ];
  return {
    ...{ name, aliases: networksOf(service).flatMap(([, { aliases = [] }]) => aliases) },
    ...{ rootfs: image.rootfs, user, env: { ...image.env, ...service.environment } },
    command: [...entrypoint, ...command].map(interpolated),
    readOnly: service.read_only ?? false,
    tmpfs: service.tmpfs ?? [],
    ...(service.working_dir && { workingDir: service.working_dir }),
    binds: files.map(({ file, target }) => ({ source: join(folder, file), target, readOnly: true })),
  };
}

/** The networks of a service, with what it is in each. */
export function networksOf({ networks = [] }: Service): (readonly [string, Attachment])[] {
  return isList(networks) ? networks.map((each) => [each, {}]) : Object.entries(networks);
}

// `Array.isArray` does not narrow a type to a list that is read-only.
function isList(value: object): value is readonly string[] {
  return Array.isArray(value);
}

/** The command of a service's health check. */
export function healthCommand({ healthcheck }: Service): readonly string[] | undefined {
  return healthcheck?.test.slice(1).map(interpolated);
}

function interpolated(text: string): string {
  if (/(?<!\$)\$(?!\$)/.test(text)) throw new Error(`compose would replace a variable in: ${text}`);
  return text.replaceAll("$$", "$");
}
