import { execFile, spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Exit, Settings } from "../../harness/keyrun-process.ts";
import type { ContainerNetwork } from "./container-network.ts";

/**
 * What a container engine is told. Namespaces, an overlay, dropped rights and a read-only root are
 * those of the kernel, as in any engine. What is missing are limits of memory and processors, and
 * the engine's filter of system calls.
 */
export interface ContainerOptions {
  readonly name: string;
  /** Its other names in the network. */
  readonly aliases?: readonly string[];
  /** The folder of the image's files, which stays as it is. */
  readonly rootfs: string;
  readonly network: ContainerNetwork;
  /** An empty folder for the work of the container. */
  readonly folder: string;
  readonly command: readonly string[];
  /** `uid:gid` */
  readonly user: string;
  readonly env: Settings;
  readonly workingDir?: string;
  readonly readOnly?: boolean;
  readonly binds?: readonly Bind[];
  /** As compose.yaml writes them: `/tmp` or `/data:uid=1,mode=0700`. */
  readonly tmpfs?: readonly string[];
}

export interface Bind {
  readonly source: string;
  readonly target: string;
  readonly readOnly?: boolean;
}

export interface Container {
  readonly address: string;
  /** The process 1 of the container, as this machine counts. */
  pid(): number;
  output(): string;
  isOver(): boolean;
  signal(signal: NodeJS.Signals): void;
  readonly exited: Promise<Exit>;
  /** Runs a further command in the container, as its user and with its environment. */
  exec(command: readonly string[]): Promise<Executed>;
  /** The paths that were made or changed outside of what is mounted, since the start. */
  written(): string[];
  kill(): Promise<void>;
}

export interface Executed {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What an engine sets where the image says nothing. */
const usualEnv: Settings = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/",
};

export async function startContainer(options: ContainerOptions): Promise<Container> {
  const { name, aliases = [], network, folder, command } = options;
  const { address, path } = network.attach([name, ...aliases]);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "hosts"), `127.0.0.1 localhost\n${address} ${name}\n`);
  writeFileSync(join(folder, "resolv.conf"), `nameserver ${network.hostAddress}\n`);
  const own = asUser(options, command);
  const child = spawn(
    "nsenter",
    [
      `--net=${path}`,
      ...["unshare", "--mount", "--pid", "--ipc", "--fork"],
      ...["sh", "-ec", setUp(options), "sh", ...own],
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  let over = false;
  const exited = new Promise<Exit>((resolve) => {
    child.once("close", (code, signal) => {
      over = true;
      resolve({ code, signal });
    });
  });
  // The process 1 itself: a change of user takes its bond with the one that started it.
  const killFirst = () => {
    if (!over) process.kill(pid(), "SIGKILL");
  };
  process.once("exit", killFirst);
  const pid = () => {
    const [first] = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").split(" ");
    if (!first) throw new Error(`container ${name} has no process: ${output}`);
    return Number(first);
  };
  while (!over && preparing.test(commandLine(child.pid ?? 0))) await pause(10);
  return {
    ...{ address, pid, exited },
    output: () => output,
    isOver: () => over,
    signal: (signal) => process.kill(pid(), signal),
    exec(further) {
      const into = ["--target", String(pid()), "--mount", "--pid", "--net", "--ipc", "--root", "--"];
      const args = [...into, ...asUser(options, further)];
      // Not `spawnSync`: the container's names and some of its servers are in this process.
      return new Promise((resolve) => {
        const running = execFile("nsenter", args, { timeout: 60_000 }, (_, stdout, stderr) => {
          resolve({ code: running.exitCode, stdout, stderr });
        });
      });
    },
    written() {
      const upper = `${folder}/layer/upper`;
      const find = ["find", upper, "-mindepth", "1", "-newer", `${folder}/layer/started`];
      const args = ["--target", String(pid()), "--mount", "--", ...find];
      const found = spawnSync("nsenter", args, { encoding: "utf8" });
      if (found.status !== 0) throw new Error(found.stderr);
      const paths = found.stdout.split("\n").filter((line) => line !== "");
      return paths.map((line) => line.slice(upper.length));
    },
    async kill() {
      process.off("exit", killFirst);
      killFirst();
      await exited;
    },
  };
}

/** The programs that prepare a container, before its first process becomes its own. */
const preparing = /^$|^(unshare|sh\0-ec|chroot|\/usr\/bin\/env|\/usr\/bin\/setpriv)\0/;

/** That of the only child; empty if there is none yet. */
function commandLine(parent: number): string {
  try {
    const [child = ""] = readFileSync(`/proc/${parent}/task/${parent}/children`, "utf8").split(" ");
    return child && readFileSync(`/proc/${child}/cmdline`, "utf8");
  } catch {
    // It has just ended.
    return "";
  }
}

/** The command as the container's user, with its environment alone and no rights of root. */
function asUser({ user, env, workingDir = "/" }: ContainerOptions, command: readonly string[]): string[] {
  const [uid = "", gid = uid] = user.split(":");
  const settings = Object.entries({ ...usualEnv, ...env }).map(([name, value]) => `${name}=${value}`);
  return [
    ...["/usr/bin/env", "-i", `--chdir=${workingDir}`, ...settings],
    ...["/usr/bin/setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups"],
    ...["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--", ...command],
  ];
}

/** The script that prepares the container's files, and becomes its first process. */
function setUp(options: ContainerOptions): string {
  const { rootfs, folder, readOnly = false, binds = [], tmpfs = [] } = options;
  const layer = `${folder}/layer`;
  const names = ["hosts", "resolv.conf"].map((each) => ({
    source: join(folder, each),
    target: `/etc/${each}`,
    readOnly: true,
  }));
  const lines = [
    `mkdir ${layer}`,
    `mount -t tmpfs tmpfs ${layer}`,
    `mkdir ${layer}/upper ${layer}/work ${layer}/root`,
    `mount -t overlay overlay -o lowerdir=${rootfs},upperdir=${layer}/upper,workdir=${layer}/work ${layer}/root`,
    `cd ${layer}/root`,
    "mount -t proc proc proc",
    "mount -t tmpfs -o mode=755 tmpfs dev",
    "mkdir dev/shm; mount -t tmpfs -o mode=1777 tmpfs dev/shm",
    "for each in null zero full random urandom; do : > dev/$each; mount --bind /dev/$each dev/$each; done",
    "ln -s /proc/self/fd dev/fd; ln -s fd/0 dev/stdin; ln -s fd/1 dev/stdout; ln -s fd/2 dev/stderr",
    ...tmpfs.flatMap((each) => {
      const [target = "", mountOptions = "mode=1777"] = each.split(":");
      return [`mkdir -p .${target}`, `mount -t tmpfs -o ${mountOptions} tmpfs .${target}`];
    }),
    ...[...names, ...binds].flatMap((bind) => [
      `if [ -d '${bind.source}' ]; then mkdir -p .${bind.target}; else mkdir -p .${dirname(bind.target)}; [ -e .${bind.target} ] || : > .${bind.target}; fi`,
      `mount --bind '${bind.source}' .${bind.target}`,
      ...(bind.readOnly ? [`mount -o remount,bind,ro .${bind.target}`] : []),
    ]),
    ...(readOnly ? [`mount -o remount,ro ${layer}/root`] : []),
    `: > ${layer}/started`,
    'exec chroot . "$@"',
  ];
  return lines.join("\n");
}
