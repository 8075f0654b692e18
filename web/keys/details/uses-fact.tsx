import type { Key } from "../../api/messages.ts";
import { numbersInWords, usageNumbers, usageSum } from "../../usage/history/usage-numbers.ts";
import { useUsageHistory } from "../../usage/history/use-usage-history.ts";
import { Fact } from "./fact.tsx";

/** How much the key was used in the last hours: whether an old key is still needed. */
export function UsesFact({ apiKey }: { apiKey: Key }) {
  const { data, isError } = useUsageHistory(apiKey.teamId, "day", { keyId: apiKey.id });
  if (apiKey.lastUseTime === undefined) return null;
  return (
    <Fact name="Last 24 hours">
      {data ? (
        numbersInWords(usageSum((data.points ?? []).map(usageNumbers)))
      ) : (
        <span className="muted">{isError ? "Can’t be shown right now" : "…"}</span>
      )}
    </Fact>
  );
}
