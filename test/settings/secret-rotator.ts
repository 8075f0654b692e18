// A process that rotates the secrets of one folder after the other until it is killed, and reports
// each finished rotation on standard output. Argument: the folder in which it makes the others.
import { randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { changeSecrets, putFirst } from "#src/settings/change-secrets.ts";
import { newSecretText } from "#src/settings/data-folder.ts";

const [folder = ""] = process.argv.slice(2);

for (let n = 0; ; n++) {
  mkdirSync(join(folder, String(n)));
  const path = join(folder, String(n), "secret");
  writeFileSync(path, `${newSecretText(randomBytes)}\n`, { mode: 0o600 });
  for (let more = 0; more < 6; more++) {
    const text = newSecretText(randomBytes);
    const rotation = await changeSecrets(path, putFirst(text));
    if ("refused" in rotation) throw new Error(rotation.refused);
    // Writes to a pipe are synchronous, so a line written before the kill can still be read.
    process.stdout.write(`${n} ${text}\n`);
  }
}
