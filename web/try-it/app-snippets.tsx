import { useState } from "react";
import { Icon } from "../controls/icon.tsx";
import { NoApps } from "./no-apps.tsx";
import { SettingLines } from "./setting-lines.tsx";
import { SnippetBlock } from "./snippet-block.tsx";
import { useRunnableApps } from "./use-runnable-apps.ts";

/** The snippets that run one of the team's apps, and the choice of that app. */
export function AppSnippets({ teamId }: { teamId: string }) {
  const { apps, first, known, failed } = useRunnableApps(teamId);
  const [chosen, setChosen] = useState<string | null>(null);
  if (!known && !failed) return <div className="try-it-place" />;
  if (known && apps.length === 0) return <NoApps teamId={teamId} />;
  const appId = chosen ?? first;
  return (
    <>
      <SettingLines />
      <SnippetBlock
        facts={{ appId }}
        aside={
          apps.length > 0 && (
            <div className="select select-small">
              <select
                aria-label="App"
                value={appId}
                onChange={(event) => setChosen(event.currentTarget.value)}
              >
                {apps.map((app) => (
                  <option key={app.id} value={app.id}>
                    {app.displayName || app.id}
                  </option>
                ))}
              </select>
              <Icon name="sort" />
            </div>
          )
        }
      />
    </>
  );
}
