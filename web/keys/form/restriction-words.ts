import { quotaSpan } from "../../usage/quota-words.ts";
import type { KeyDraft } from "./key-draft.ts";

/**
 * What a key is restricted to: "2 apps, 10 a minute". "Every app, the team’s limit" if to nothing.
 */
export function restrictionsInWords(draft: KeyDraft): string {
  const { appIds } = draft;
  const [rate, quota] = [draft.requestsPerMinute.trim(), draft.quota.trim()];
  if (appIds.length === 0 && rate === "" && quota === "") return "Every app, the team’s limit";
  const apps = appIds.length === 0 ? "Every app" : appIds.length === 1 ? "1 app" : `${appIds.length} apps`;
  return [apps, rate && `${rate} a minute`, quota && `${quota} a ${quotaSpan(draft.quotaPeriod)}`]
    .filter(Boolean)
    .join(", ");
}
