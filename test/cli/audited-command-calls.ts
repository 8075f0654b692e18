import type { Circumstances } from "../harness/command-line.ts";
import type { Keyrun } from "../harness/keyrun.ts";

/** A call of a command, and what the event says it is about. */
export interface CommandCall extends Pick<Circumstances, "stdin"> {
  readonly args: readonly string[];
  /** Of the event; absent: not known before the call. */
  readonly teamId?: string;
  readonly target?: string;
}

/** A command that changes something at the server. */
export interface ChangingCommand {
  readonly action: string;
  done(keyrun: Keyrun): Promise<CommandCall>;
  /** Absent where only a server without local sign-in refuses it. */
  refused?: CommandCall;
}

const noKey = "7k3f0m9x2a4c6e8g1j5n7p9q";
const email = "grace@example.com";
let count = 0;
const newId = () => `by-command-${++count}`;

const ofKey = async (keyrun: Keyrun, options: readonly string[] = []) => {
  const { id: target } = await keyrun.newKey("demo");
  return { args: ["--team", "demo", target, ...options], teamId: "demo", target };
};
const noSuchKey = { args: ["--team", "demo", noKey], teamId: "demo", target: noKey };
const nobody = { args: ["nobody", email], teamId: "nobody", target: email };

async function newApp(keyrun: Keyrun): Promise<string> {
  const id = newId();
  await keyrun.apps.createApp({ app: { id, backend: { kind: { case: "echo", value: {} } } } });
  return id;
}

/** By the words that call them. */
export const changingCommands: ReadonlyMap<string, ChangingCommand> = new Map<string, ChangingCommand>([
  [
    "teams update",
    {
      action: "team.update",
      done: async (keyrun) => {
        const teamId = await keyrun.newTeam();
        return { args: [teamId, "--name", "Acme Ltd"], teamId, target: "" };
      },
      refused: { args: ["nobody", "--name", "x"], teamId: "nobody", target: "" },
    },
  ],
  [
    "teams create",
    {
      action: "team.create",
      async done() {
        const teamId = newId();
        return { args: [teamId, "--plan", "pro"], teamId, target: "" };
      },
      refused: { args: ["demo"], teamId: "demo", target: "" },
    },
  ],
  [
    "teams set-plan",
    {
      action: "team.update",
      async done(keyrun) {
        const teamId = await keyrun.newTeam();
        return { args: [teamId, "enterprise"], teamId, target: "" };
      },
      refused: { args: ["nobody", "pro"], teamId: "nobody", target: "" },
    },
  ],
  [
    "teams delete",
    {
      action: "team.delete",
      async done(keyrun) {
        const teamId = await keyrun.newTeam();
        return { args: [teamId, "--yes"], teamId, target: "" };
      },
      refused: { args: ["nobody", "--yes"], teamId: "nobody", target: "" },
    },
  ],
  [
    "members add",
    {
      action: "member.add",
      done: async () => ({ args: ["demo", email], teamId: "demo", target: email }),
      refused: nobody,
    },
  ],
  [
    "members remove",
    {
      action: "member.remove",
      async done(keyrun) {
        await keyrun.teams.addMember({ teamId: "demo", email });
        return { args: ["demo", email], teamId: "demo", target: email };
      },
      refused: nobody,
    },
  ],
  [
    "preview grant",
    {
      action: "preview.set",
      done: async () => ({ args: [email], teamId: "", target: email }),
      refused: { args: ["no-email"], teamId: "", target: "" },
    },
  ],
  [
    "preview withdraw",
    {
      action: "preview.set",
      async done(keyrun) {
        await keyrun.teams.setPreviewAccess({ email, granted: true });
        return { args: [email], teamId: "", target: email };
      },
      refused: { args: ["no-email"], teamId: "", target: "" },
    },
  ],
  [
    "apps create",
    {
      action: "app.create",
      async done() {
        const target = newId();
        return { args: [target, "--backend", "echo"], teamId: "", target };
      },
      refused: { args: ["echo", "--backend", "echo"], teamId: "", target: "echo" },
    },
  ],
  [
    "apps update",
    {
      action: "app.update",
      async done(keyrun) {
        const target = await newApp(keyrun);
        return { args: [target, "--timeout", "5s"], teamId: "", target };
      },
      refused: { args: ["nothing", "--timeout", "5s"], teamId: "", target: "nothing" },
    },
  ],
  [
    "apps delete",
    {
      action: "app.delete",
      async done(keyrun) {
        const target = await newApp(keyrun);
        return { args: [target, "--yes"], teamId: "", target };
      },
      refused: { args: ["nothing", "--yes"], teamId: "", target: "nothing" },
    },
  ],
  [
    "keys create",
    {
      action: "key.create",
      done: async () => ({ args: ["--team", "demo", "--label", "ci"], teamId: "demo" }),
      refused: { args: ["--team", "nobody"], teamId: "nobody", target: "" },
    },
  ],
  [
    "keys update",
    {
      action: "key.update",
      done: (keyrun) => ofKey(keyrun, ["--label", "ci-deploy"]),
      refused: { ...noSuchKey, args: [...noSuchKey.args, "--label", "ci-deploy"] },
    },
  ],
  [
    "keys rotate",
    { action: "key.rotate", done: (keyrun) => ofKey(keyrun, ["--overlap", "1h"]), refused: noSuchKey },
  ],
  ["keys revoke", { action: "key.revoke", done: (keyrun) => ofKey(keyrun), refused: noSuchKey }],
  [
    "service-tokens create",
    {
      action: "service_token.create",
      done: async () => ({ args: [newId(), "--role", "verify"], teamId: "" }),
      // Keyrun's own name.
      refused: { args: ["keyrun", "--role", "verify"], teamId: "", target: "keyrun" },
    },
  ],
  [
    "service-tokens revoke",
    {
      action: "service_token.revoke",
      async done(keyrun) {
        const { id, name } = await keyrun.newServiceToken(1);
        return { args: [name], teamId: "", target: id };
      },
      refused: { args: [noKey], teamId: "", target: noKey },
    },
  ],
  [
    "sign-in-link",
    { action: "sign_in_link.create", done: async () => ({ args: [], teamId: "", target: "" }) },
  ],
]);

/** Commands that change nothing, with a call of each. */
export const readingCommands: ReadonlyMap<string, (keyrun: Keyrun) => Promise<CommandCall>> = new Map(
  Object.entries({
    doctor: async () => ({ args: [] }),
    "teams list": async () => ({ args: [] }),
    "members list": async () => ({ args: ["demo"] }),
    "preview list": async () => ({ args: [] }),
    "apps show": async () => ({ args: ["echo"] }),
    "apps check": async () => ({ args: ["echo"] }),
    "apps list": async () => ({ args: [] }),
    "keys list": async () => ({ args: ["--team", "demo", "--revoked"] }),
    "keys show": async (keyrun: Keyrun) => ({ args: (await ofKey(keyrun)).args }),
    "keys verify": async (keyrun: Keyrun) => ({ args: [], stdin: [(await keyrun.newKey("demo")).value] }),
    "keys scan": async () => ({ args: ["-"], stdin: ["no key"] }),
    usage: async () => ({ args: ["--team", "demo"] }),
    "service-tokens list": async () => ({ args: ["--revoked"] }),
    audit: async () => ({ args: ["--team", "demo"] }),
    "secrets list": async () => ({ args: [] }),
    version: async () => ({ args: [] }),
    completion: async () => ({ args: ["bash"] }),
    complete: async () => ({ args: ["--", "keys", "list", "--team", ""] }),
  }),
);

/** Commands that an API key may do. What it runs is no event. */
export const keyCommands: readonly string[] = ["run", "runs list", "runs show", "runs cancel", "limit"];

/** Commands that need no running server. What they have changed is written at the next start. */
export const offlineCommands: readonly string[] = [
  "serve",
  "fleet",
  "secrets rotate",
  "secrets add",
  "secrets promote",
  "secrets drop",
  "backup",
  "restore",
  "copy-to-mongodb",
];
