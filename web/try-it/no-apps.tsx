import { CopyButton } from "../controls/copy-button.tsx";
import { useServices } from "../services.tsx";

/** What a team sees that has no app to run, and so nothing that a key is good for yet. */
export function NoApps({ teamId }: { teamId: string }) {
  const command = `${useServices().command} apps create shout --backend http --url http://127.0.0.1:9000/run --team ${teamId}`;
  return (
    <div className="no-apps">
      <p>
        <strong>This team has no app to run yet.</strong>{" "}
        <span className="muted">
          A key works as soon as there is one. Whoever operates Keyrun adds it, for example with:
        </span>
      </p>
      <div className="command">
        <code>{command}</code>
        <CopyButton text={command} what="Command" />
      </div>
    </div>
  );
}
