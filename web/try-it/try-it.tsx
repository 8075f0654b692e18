import { Icon } from "../controls/icon.tsx";
import { Late } from "../late/late.tsx";

interface TryItProps {
  readonly teamId: string;
  /** Whether it begins open. */
  readonly open: boolean;
}

/** How to run an app from a program. It shows variables, never a key. */
export function TryIt({ teamId, open }: TryItProps) {
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
        {/* Its place is kept, so that nothing moves when they come. */}
        <Late until={<div className="tabs tabs-place" />}>
          {({ AppSnippets }) => <AppSnippets teamId={teamId} />}
        </Late>
      </div>
    </details>
  );
}
