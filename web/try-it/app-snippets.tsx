import { useState } from "react";
import { Icon } from "../controls/icon.tsx";
import { CallChoice } from "./call-choice.tsx";
import { JsonField } from "./json-field.tsx";
import { jsonProblem } from "./json-problem.ts";
import { NoApps } from "./no-apps.tsx";
import { SettingLines } from "./setting-lines.tsx";
import type { Call } from "./snippet.ts";
import { SnippetBlock } from "./snippet-block.tsx";
import { useRunnableApps } from "./use-runnable-apps.ts";

/** The snippets that run one of the team's apps, and the choices of that app and of the call. */
export function AppSnippets({ teamId }: { teamId: string }) {
  const { apps, first, known, failed } = useRunnableApps(teamId);
  const [chosen, setChosen] = useState<string | null>(null);
  const [call, setCall] = useState<Call>("run");
  const [json, setJson] = useState("");
  if (!known && !failed) return <div className="try-it-place" />;
  if (known && apps.length === 0) return <NoApps teamId={teamId} />;
  const appId = chosen ?? first;
  const problem = jsonProblem(json);
  const isGuard = apps.find(({ id }) => id === appId)?.guard ?? false;
  return (
    <>
      <SettingLines />
      <p className="muted small">The second line waits for the key: paste it, and press Enter.</p>
      {isGuard ? (
        <p className="muted small">Call this service at its own address, with the key. Its proxy asks:</p>
      ) : (
        <>
          <CallChoice call={call} onChoose={setCall} />
          <JsonField text={json} problem={problem} onChange={setJson} />
        </>
      )}
      <SnippetBlock
        facts={{ appId, call, json: problem === null ? json.trim() : "" }}
        isGuard={isGuard}
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
