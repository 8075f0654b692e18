/** `keys …`: a team's keys from their creation to their end. */

import type { Command } from "commander";
import { programName } from "./called.ts";
import {
  append,
  commandGroup,
  planName,
  readDuration,
  rpcCommand,
  type TeamOption,
  withExamples,
} from "./command-words.ts";
import { expiryWords, readExpiry, readNewExpiry } from "./expiry.ts";
import { CommandFailure, wrongUse } from "./failures.ts";
import { readKey, withNamedKey } from "./key-name.ts";
import { type ListOptions, listKeys, stateWord } from "./list-keys.ts";
import { chooseTeam } from "./lists.ts";
import { quotaWords, readRequests } from "./quota-words.ts";
import type { ScanOptions, ScanWorld } from "./scan/scan-keys.ts";
import { printFields, timeWords } from "./table.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

/** `keys create | list | show | update | rotate | revoke | verify | scan`. */
export function addKeyCommands(program: Command, terminal: Terminal, world: ScanWorld): void {
  const keys = commandGroup(program, "keys", {
    does: "Manage and verify a team's API keys.",
    examples: ["keys create --team demo --label ci-deploy", "keys list --team demo"],
  });

  rpcCommand(keys, "create", {
    does: "Create a key, and print it alone on standard output: it is shown only once.",
    examples: [
      "keys create --team demo --label ci-deploy",
      "keys create --expires 90d",
      "keys create --app echo --requests-per-minute 10",
      "keys create --requests-per-day 1000",
      "keys create > key.txt",
    ],
  })
    .option("--team <team_id>", "the team that the key is for (default: the only one)")
    .option("--label <label>", "what to call it, such as ci-deploy")
    .option("--expires <time>", expiryForms)
    .option("--app <app_id>", "the only app that it may run; repeat it for more (default: every app)", append)
    .option("--requests-per-minute <number>", "a limit of its own (default: only the team's)")
    .option("--requests-per-day <number>", "a quota of its own a day of UTC (default: only the team's)")
    .option("--requests-per-month <number>", "a quota of its own a month of UTC")
    .action((options: CreateKeyOptions) => createKey(terminal, options));

  rpcCommand(keys, "list", {
    does: "List a team's keys, newest first.",
    examples: [
      "keys list --team demo --revoked",
      "keys list --search deploy",
      "keys list --unused-for 90d --json",
    ],
    table: true,
  })
    .option("--team <team_id>", "the team (default: the only one)")
    .option("--revoked", "show revoked and expired keys too")
    .option("--search <text>", "only keys whose label has this text, or whose id or redacted form fits it")
    .option("--unused-for <time>", "only active keys without a use in this time, like 90d or 12h")
    .action((options: ListOptions) => listKeys(terminal, options));

  rpcCommand(keys, "show", {
    does: "Show all that is known of a key, also of one that has ended.",
    examples: ["keys show 7k3f0m9x2a4c6e8g1j5n7p9q", "keys show --team demo svc_7k3f…x9Qz"],
  })
    .argument("<key>", keyNames)
    .option("--team <team_id>", teamOfKey)
    .action((key: string, options: TeamOption) => showKey(terminal, key, options));

  rpcCommand(keys, "update", {
    does: "Change a key's label, or bring its expiry forward.",
    examples: [
      "keys update --label ci-deploy 7k3f0m9x2a4c6e8g1j5n7p9q",
      "keys update --expires 7d svc_7k3f…x9Qz",
    ],
  })
    .argument("<key>", keyNames)
    .option("--team <team_id>", teamOfKey)
    .option("--label <label>", 'what to call it; "" takes the label away')
    .option("--expires <time>", expiryForms)
    .action((key: string, options: UpdateOptions) => updateKey(terminal, key, options));

  rpcCommand(keys, "rotate", {
    does: "Replace a key by a new one, and print the new one alone on standard output.",
    examples: ["keys rotate 7k3f0m9x2a4c6e8g1j5n7p9q --overlap 24h", "keys rotate svc_7k3f…x9Qz > key.txt"],
  })
    .argument("<key>", keyNames)
    .option("--team <team_id>", teamOfKey)
    .option("--overlap <time>", "how long the old key goes on, like 24h, at most 30d (default: not at all)")
    .action((key: string, options: RotateOptions) => rotateKey(terminal, key, options));

  rpcCommand(keys, "revoke", {
    does: "Revoke a key, at once and for ever.",
    examples: ["keys revoke --team demo 7k3f0m9x2a4c6e8g1j5n7p9q", "keys revoke svc_7k3f…x9Qz"],
  })
    .argument("<key>", keyNames)
    .option("--team <team_id>", teamOfKey)
    .action((key: string, options: TeamOption) => revokeKey(terminal, key, options));

  rpcCommand(keys, "verify", {
    does: "Say whether the key on standard input is good, without spending; exit 0 if it is.",
    examples: ["keys verify < key.txt", "keys verify --app echo < key.txt"],
  })
    .option("--app <app_id>", "the app that it must be allowed to run")
    .allowExcessArguments()
    .action((options: VerifyOptions, { args }: Command) => {
      if (args.length > 0) throw wrongUse(keyOnStandardInput);
      return verifyKey(terminal, options);
    });

  addScan(keys, terminal, world);
}

const keyNames = "its id, alone or after the prefix as in svc_<id>; or its redacted form";
const expiryForms = "when it ends: a time from now, like 90d, or its last day, like 2027-01-31";
const teamOfKey = "the team that the key belongs to (default: the only one)";

const keyOnStandardInput = `keys verify reads the key from standard input, since shells keep a history of what is typed: \`${programName} keys verify < key.txt\`. If this was a key, remove the line from the history.`;

/** It needs no running server. */
function addScan(keys: Command, terminal: Terminal, world: ScanWorld): void {
  const scan = keys
    .command("scan")
    .description("Find leaked keys in files, offline. Exit 0: none, 1: found, 2: not everything was read.")
    .argument("<path...>", "files and folders, or - for standard input")
    .option("--history", "also all that git has kept of the folders")
    .option("--prefix <prefix>", "the prefix of the keys (default: KEYRUN_KEY_PREFIX, or svc)")
    .option("--json", "print what was found as JSON")
    .action(async (paths: string[], options: ScanOptions) => {
      const { scanKeys } = await import("./scan/scan-keys.ts");
      await scanKeys(world, terminal, { ...options, paths });
    });
  withExamples(scan, ["keys scan .", "keys scan --history ."]);
}

interface CreateKeyOptions extends TeamOption {
  readonly label?: string;
  readonly expires?: string;
  readonly app?: readonly string[];
  readonly requestsPerMinute?: string;
  readonly requestsPerDay?: string;
  readonly requestsPerMonth?: string;
}

async function createKey(terminal: Terminal, options: CreateKeyOptions): Promise<void> {
  const expiry = options.expires === undefined ? {} : { expireTime: readNewExpiry(options.expires) };
  const { app: appIds = [], requestsPerMinute: perMinute } = options;
  const quota = readQuota(options);
  const restrictions = {
    // An older server knows no such field.
    ...(appIds.length > 0 && { appIds: [...appIds] }),
    ...(perMinute !== undefined && { requestsPerMinute: readCount(perMinute) }),
    ...(quota && { quota }),
  };
  const { keys } = await terminal.server();
  const teamId = await chooseTeam(terminal, options.team);
  const message = await keys.createKey({ teamId, label: options.label ?? "", ...expiry, ...restrictions });
  await answer(terminal, options, message, () => terminal.print(message.value ?? ""));
  const label = message.key?.label ? ` (${message.key.label})` : "";
  terminal.note(`Key ${message.key?.id}${label} of team ${teamId} is created.`);
  const { expireTime } = message.key ?? {};
  if (expireTime !== undefined) terminal.note(expiryWords(expireTime, options.expires));
  terminal.note("It is shown only once: store it where you keep secrets.");
}

/** Of the largest number the server knows: it is the plan's. */
function readCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw wrongUse("--requests-per-minute must be a whole number from 1 to the plan's limit, like 10.");
}

function readQuota({ requestsPerDay: day, requestsPerMonth: month }: CreateKeyOptions) {
  if (day !== undefined && month !== undefined) {
    throw wrongUse("A key has one quota: give --requests-per-day or --requests-per-month.");
  }
  const text = day ?? month;
  if (text === undefined) return undefined;
  const unit = day === undefined ? "MONTH" : "DAY";
  const requests = readRequests(text, `--requests-per-${unit.toLowerCase()}`);
  return { requests, period: `QUOTA_PERIOD_${unit}` } as const;
}

/** Shows the key that a text names. */
async function showKey(terminal: Terminal, text: string, options: TeamOption): Promise<void> {
  const key = await withNamedKey(terminal, { text, team: options.team }, (named) => readKey(terminal, named));
  const moment = (time: string | undefined, by: string | undefined) =>
    `${timeWords(time ?? "-")}, by ${by || "-"}`;
  await answer(terminal, options, { key }, () =>
    printFields(terminal, [
      ["id", key.id],
      ["team", key.teamId],
      ["label", key.label || "-"],
      ["key", key.redactedValue],
      ["state", stateWord(key)],
      ["created", moment(key.createTime, key.createdBy)],
      ["last used", timeWords(key.lastUseTime ?? "never")],
      ["expires", timeWords(key.expireTime ?? "never")],
      ["revoked", key.revokeTime && moment(key.revokeTime, key.revokedBy)],
      ["apps", key.appIds?.join(", ") || "all of the team's"],
      ["requests a minute", String(key.requestsPerMinute ?? "only the team's limit")],
      ["quota", key.quota && quotaWords(key.quota)],
      ["replaces", key.replacesKeyId || undefined],
      ["replaced by", key.replacedByKeyId || undefined],
    ]),
  );
}

interface UpdateOptions extends TeamOption {
  label?: string;
  expires?: string;
}

/** Changes the label or the expiry of the key that a text names. */
async function updateKey(terminal: Terminal, text: string, options: UpdateOptions): Promise<void> {
  const { label, expires } = options;
  if (label === undefined && expires === undefined) {
    throw wrongUse("Say what to change: give --label, --expires, or both.");
  }
  const change = {
    ...(label !== undefined && { label }),
    ...(expires !== undefined && { expireTime: readExpiry(expires) }),
  };
  const { keys } = await terminal.server();
  const updateMask = Object.keys(change).join(",");
  const message = await withNamedKey(terminal, { text, team: options.team }, (named) =>
    keys.updateKey({ ...named, ...change, updateMask }),
  );
  const { id, label: called, expireTime } = message.key ?? {};
  const expiry = expireTime === undefined ? "" : ` ${expiryWords(expireTime, expires)}`;
  await answer(terminal, options, message, () =>
    terminal.print(`Key ${id} is changed: its label is ${called || "empty"}.${expiry}`),
  );
}

interface RotateOptions extends TeamOption {
  overlap?: string;
}

/** Replaces the key that a text names, and prints the new one alone. */
async function rotateKey(terminal: Terminal, text: string, options: RotateOptions): Promise<void> {
  const overlap = readDuration(options.overlap ?? "0", "--overlap");
  const { keys } = await terminal.server();
  const message = await withNamedKey(terminal, { text, team: options.team }, (named) =>
    keys.rotateKey({ ...named, overlap }),
  );
  await answer(terminal, options, message, () => terminal.print(message.value ?? ""));
  const { key, replacedKey: old } = message;
  terminal.note(`Key ${key?.id} of team ${key?.teamId} replaces key ${old?.id}.`);
  const { revokeTime, expireTime = "" } = old ?? {};
  terminal.note(
    revokeTime === undefined
      ? `The old key works until ${timeWords(expireTime)}.`
      : `The old key was revoked at ${timeWords(revokeTime)}.`,
  );
  if (key?.expireTime !== undefined) terminal.note(`The new key expires at ${timeWords(key.expireTime)}.`);
  terminal.note("The new key is shown only once: store it where you keep secrets.");
}

/** Revokes the key that a text names. */
async function revokeKey(terminal: Terminal, text: string, options: TeamOption): Promise<void> {
  const { keys } = await terminal.server();
  const message = await withNamedKey(terminal, { text, team: options.team }, keys.revokeKey);
  const { id, revokeTime = "" } = message.key ?? {};
  await answer(terminal, options, message, () =>
    terminal.print(`Key ${id} was revoked at ${timeWords(revokeTime)}.`),
  );
}

interface VerifyOptions extends JsonOption {
  readonly app?: string;
}

async function verifyKey(terminal: Terminal, options: VerifyOptions): Promise<void> {
  const value = await terminal.readLine();
  if (value === "") {
    throw new CommandFailure("There is no key on standard input: send one line with the key.");
  }
  const { keys } = await terminal.server();
  const message = await keys.verifyKey({ value, cost: 0, appId: options.app ?? "" });
  const { verdict = "VERDICT_UNSPECIFIED", keyId, teamId, plan } = message;
  const isValid = verdict === "VERDICT_VALID";
  await answer(terminal, options, message, () => {
    const mark = isValid ? terminal.style.good : terminal.style.bad;
    terminal.print(mark(verdict.replace(/^VERDICT_/, "")));
    if (keyId) terminal.note(`Key ${keyId} of team ${teamId}, plan ${planName(plan)}.`);
  });
  terminal.endWith(isValid ? 0 : 1);
}
