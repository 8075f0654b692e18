import { useState } from "react";
import { Icon } from "../controls/icon.tsx";
import { Lazy } from "../lazy/lazy.tsx";

interface TryItProps {
  readonly teamId: string;
  /** Whether it is open at first. After that, the person decides. */
  readonly open: boolean;
}

/** How to run an app from a program. It shows environment variables, never a key. */
export function TryIt({ teamId, open }: TryItProps) {
  const [openAtFirst] = useState(open);
  return (
    <details className="try-it" open={openAtFirst}>
      <summary>
        <Icon name="chevron" />
        Try it
      </summary>
      <div className="try-it-body">
        <p className="muted">How a program runs one of the team’s apps:</p>
        {/* An empty box of the same size until the snippets are loaded, so that nothing moves. */}
        <Lazy until={<div className="try-it-place" />}>
          {({ AppSnippets }) => <AppSnippets teamId={teamId} />}
        </Lazy>
      </div>
    </details>
  );
}
