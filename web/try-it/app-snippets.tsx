import { useState } from "react";
import { Icon } from "../controls/icon.tsx";
import { SnippetBlock } from "./snippet-block.tsx";
import { useRunnableApps } from "./use-runnable-apps.ts";

/** The snippets that run one of the team's apps, and the choice of that app. */
export function AppSnippets({ teamId }: { teamId: string }) {
  const { apps, first } = useRunnableApps(teamId);
  const [chosen, setChosen] = useState<string | null>(null);
  const appId = chosen ?? first;
  return (
    <SnippetBlock
      facts={{ appId }}
      aside={
        apps.length > 0 && (
          <div className="select select-small">
            <select aria-label="App" value={appId} onChange={(event) => setChosen(event.currentTarget.value)}>
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
  );
}
