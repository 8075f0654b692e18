import { Icon } from "../controls/icon.tsx";
import { Lazy } from "../lazy/lazy.tsx";

interface TryItProps {
  readonly teamId: string;
  /** Whether it is open at first. */
  readonly open: boolean;
}

/** How to run an app from a program. It shows environment variables, never a key. */
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
        {/* An empty box of the same size until the snippets are loaded, so that nothing moves. */}
        <Lazy until={<div className="tabs tabs-place" />}>
          {({ AppSnippets }) => <AppSnippets teamId={teamId} />}
        </Lazy>
      </div>
    </details>
  );
}
