import { useState } from "react";
import { Icon } from "../controls/icon.tsx";
import { SnippetBlock } from "./snippet-block.tsx";
import { useRunnableApps } from "./use-runnable-apps.ts";

interface TryItProps {
  readonly teamId: string;
  /** Whether it begins open. */
  readonly open: boolean;
}

/** How to run an app from a program. It shows variables, never a key. */
export function TryIt({ teamId, open }: TryItProps) {
  const { apps, first } = useRunnableApps(teamId);
  const [chosen, setChosen] = useState<string | null>(null);
  const appId = chosen ?? first;
  return (
    <details className="try-it" open={open}>
      <summary>
        <Icon name="chevron" />
        Try it
      </summary>
      <div className="try-it-body">
        <p className="muted">
          Set <code>KEYRUN_URL</code> to <code>{window.location.origin}</code> and <code>KEYRUN_API_KEY</code>{" "}
          to one of the team’s keys, then run:
        </p>
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
      </div>
    </details>
  );
}
