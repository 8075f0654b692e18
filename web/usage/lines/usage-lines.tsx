import { type ReactNode, useEffect } from "react";
import type { ListKeysResponse } from "../../api/messages.ts";
import { bounds } from "../../bounds.ts";
import { useUsageHistory } from "../history/use-usage-history.ts";
import { UsageLine } from "./usage-line.tsx";

/** What the row of a key shows of its usage, by the key's id. Absent or null: nothing. */
export type KeyLines = ReadonlyMap<string, ReactNode>;

interface UsageLinesProps {
  readonly teamId: string;
  /** The pages of keys that were read; undefined if none was. */
  readonly pages: readonly ListKeysResponse[] | undefined;
  onLines(change: (before: KeyLines) => KeyLines): void;
}

/**
 * Reads how the keys of a list were used, with one call for each page of it, and hands out the
 * line of each. Shows nothing, also where it fails: then there are no lines.
 */
export function UsageLines({ teamId, pages = [], onLines }: UsageLinesProps) {
  return pages.map(
    ({ keys = [] }, page) =>
      keys.some((key) => key.lastUseTime) && (
        <PageLines
          // biome-ignore lint/suspicious/noArrayIndexKey: pages are only added at the end.
          key={page}
          teamId={teamId}
          keyIds={keys.slice(0, bounds.usageKeysMax).map(({ id }) => id)}
          onLines={onLines}
        />
      ),
  );
}

interface PageLinesProps extends Omit<UsageLinesProps, "pages"> {
  readonly keyIds: string[];
}

function PageLines({ teamId, keyIds, onLines }: PageLinesProps) {
  const { data } = useUsageHistory(teamId, "month", { keyIds });
  useEffect(() => {
    if (data === undefined) return;
    const lines = (data.keys ?? []).map(
      (usage) => [usage.keyId, <UsageLine key={usage.keyId} usage={usage} />] as [string, ReactNode],
    );
    onLines((before) => new Map([...before, ...lines]));
  }, [data, onLines]);
  return null;
}
