import type { ReactNode } from "react";
import type { GetSessionResponse } from "#gen/keyrun/v1/session_service_pb.ts";
import type { Team } from "#gen/keyrun/v1/team_pb.ts";
import { Icon } from "../controls/icon.tsx";
import { apiKeysPath } from "../navigation/routes.ts";
import { AccountMenu } from "./account-menu.tsx";
import { ProductMark } from "./product-mark.tsx";
import { TeamSwitcher } from "./team-switcher.tsx";

interface FrameProps {
  /** Undefined while it is loading. */
  readonly session: GetSessionResponse | undefined;
  readonly team: Team | undefined;
  /** True on the page of a team's API keys, which the breadcrumb then names. */
  readonly atApiKeys: boolean;
  onSignedOut(): void;
  readonly children: ReactNode;
}

/**
 * The frame of the pages for a signed-in person: a sidebar on wide windows, a bar on others. Each
 * item has its place from the start, so that nothing moves when the session is known.
 */
export function Frame({ session, team, atApiKeys, onSignedOut, children }: FrameProps) {
  return (
    <div className="frame">
      <a className="skip-link" href="#main">
        Skip to content
      </a>
      <header className="frame-header">
        <ProductMark />
        <div className="team">
          {session !== undefined && session.teams.length > 0 && (
            <TeamSwitcher teams={session.teams} team={team} />
          )}
        </div>
        {atApiKeys && <Breadcrumb team={team} />}
        <div className="account">
          {session !== undefined && <AccountMenu email={session.email} onSignedOut={onSignedOut} />}
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

function Breadcrumb({ team }: { team: Team | undefined }) {
  return (
    <nav aria-label="Breadcrumb" className="breadcrumb">
      <ol>
        <li>Settings</li>
        <li>Team</li>
        <li>
          <a href={team === undefined ? "" : apiKeysPath(team.id)} aria-current="page">
            <Icon name="key" />
            API keys
          </a>
        </li>
      </ol>
    </nav>
  );
}
