import { chmodSync, existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { closedAtEnd, tempFolders } from "../../harness/closed-at-end.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { repository } from "../../harness/keyrun-process.ts";
import { hasProgram, openTmux, type TmuxTerminal } from "./tmux.ts";

const folders = tempFolders();

const keyrun = closedAtEnd(await startKeyrun());
await keyrun.teams.createTeam({ team: { id: "acme" } });

const shells = [
  {
    shell: "bash",
    start: ["bash", "--norc", "--noprofile", "-i"],
    load: `eval "$(./keyrun completion bash)"`,
  },
  {
    shell: "zsh",
    start: ["zsh", "-f", "-i"],
    load: `autoload -U compinit; compinit -u -D; eval "$(./keyrun completion zsh)"`,
  },
  { shell: "fish", start: ["fish", "--no-config", "-i"], load: "./keyrun completion fish | source" },
];

describe.each(shells)("in $shell (skipped where it or tmux is not installed)", ({ shell, start, load }) => {
  const isHere = hasProgram("tmux") && hasProgram(shell);
  let terminal: TmuxTerminal;
  let folder: string;

  /** Opens the shell where `./keyrun` is, with the completion loaded. */
  async function open(dataDir: string) {
    const home = folders.create();
    const env = {
      PATH: `${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
      HOME: home,
      TERM: "xterm-256color",
      LANG: "C.UTF-8",
      KEYRUN_DATA_DIR: dataDir,
    };
    terminal = openTmux(start, { cwd: repository, env });
    terminal.type(`${load}; echo loa""ded`, "Enter");
    await expect.poll(() => terminal.screen()).toMatch(/^loaded$/m);
    terminal.type("clear", "Enter");
    await expect.poll(() => terminal.screen()).not.toMatch(/loaded/);
  }

  /** Types words and Tab, and waits until the line of the prompt ends as expected. */
  async function completes(typed: string, line: string) {
    terminal.type("C-u", typed, "Tab");
    await expect.poll(() => terminal.screen().split("\n").at(-1)).toMatch(new RegExp(`${line} ?$`));
  }

  beforeEach(() => {
    folder = folders.create();
  });

  afterEach(() => {
    if (isHere) terminal.close();
  });

  test.skipIf(!isHere)("Tab completes commands, options, choices, teams and apps", async () => {
    await open(keyrun.config.dataDir);
    await completes("./keyrun te", "./keyrun teams");
    await completes("./keyrun teams set-p", "./keyrun teams set-plan");
    await completes("./keyrun keys create --la", "keys create --label");
    await completes("./keyrun apps create x --backend gr", "--backend grpc");
    await completes("./keyrun teams set-plan demo ent", "set-plan demo enterprise");
    await completes("./keyrun keys list --team ac", "--team acme");
    await completes("./keyrun members add de", "members add demo");
    await completes("./keyrun apps delete e", "apps delete echo");
  });

  test.skipIf(!isHere)(
    "without a running server, Tab offers no ids, says nothing and hangs nothing",
    async () => {
      await open(join(folder, "nowhere"));
      terminal.type("./keyrun keys list --team ac", "Tab", "x");
      await expect.poll(() => terminal.screen().split("\n").at(-1)).toMatch(/--team acx ?$/);
      expect(terminal.screen()).not.toMatch(/data folder|not running/);
    },
  );

  test.skipIf(!isHere)("Tab never runs the ./keyrun of another folder", async () => {
    await open(keyrun.config.dataDir);
    const trap = join(folder, "ran");
    writeFileSync(join(folder, "keyrun"), `#!/bin/sh\ntouch '${trap}'\n`);
    chmodSync(join(folder, "keyrun"), 0o755);
    terminal.type(`cd ${folder}`, "Enter");
    await completes("./keyrun te", "./keyrun teams");
    expect(existsSync(trap)).toBe(false);
  });
});
