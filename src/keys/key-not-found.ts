import { fail, type Refusal } from "../refusal/refusal.ts";
import { isKeyId } from "./key-value.ts";

/** Repeats an id only if it has the form of one: people do send a whole key in its place. */
export function keyNotFound(teamId: string, keyId: string): Refusal {
  const param = "key_id";
  const metadata = { team_id: teamId };
  if (!isKeyId(keyId)) return fail("KEY_NOT_FOUND", { param, metadata });
  const problem = `Team \`${teamId}\` has no key \`${keyId}\`.`;
  return fail("KEY_NOT_FOUND", { param, problem, metadata: { ...metadata, key_id: keyId } });
}
