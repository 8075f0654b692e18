import { CommandFailure } from "./command-failure.ts";
import { planName } from "./plan-names.ts";
import { answer, type JsonOption, type Terminal } from "./terminal.ts";

export interface VerifyOptions extends JsonOption {
  readonly app?: string;
}

export async function verifyKey(terminal: Terminal, options: VerifyOptions): Promise<void> {
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
