import type { MouseEvent, ReactNode } from "react";
import type { GetSessionResponse, Team } from "../api/messages.ts";
import { Icon } from "../controls/icon.tsx";
import { type SettingsPage, settingsPath } from "../navigation/routes.ts";
import { AccountMenu } from "./account-menu.tsx";
import { ProductMark } from "./product-mark.tsx";
import { TeamSwitcher } from "./team-switcher.tsx";

interface FrameProps {
  /** Undefined while it is loading. */
  readonly session: GetSessionResponse | undefined;
  readonly team: Team | undefined;
  /** The page of a team's settings that is shown, if it is one; undefined otherwise. */
  readonly page: SettingsPage | undefined;
  /** Goes to a path of the screen. */
  onGo(path: string): void;
  onSignedOut(): void;
  readonly children: ReactNode;
}

/**
 * The frame of the pages for a signed-in person: a sidebar on wide windows, a bar on others. Each
 * item has its place from the start, so that nothing moves when the session is known.
 */
export function Frame({ session, team, page, onGo, onSignedOut, children }: FrameProps) {
  return (
    <div className="frame">
      <a className="skip-link" href="#main">
        Skip to content
      </a>
      <header className="frame-header">
        <ProductMark />
        <div className="team">
          {session?.teams && session.teams.length > 0 && (
            <TeamSwitcher teams={session.teams} team={team} page={page} />
          )}
        </div>
        {page && <Pages team={team} page={page} onGo={onGo} />}
        <div className="account">
          {session !== undefined && <AccountMenu email={session.email ?? ""} onSignedOut={onSignedOut} />}
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

const pages = [
  { page: "api-keys", words: "API keys", icon: "key" },
  { page: "activity", words: "Activity", icon: "pulse" },
] as const;

function Pages({ team, page, onGo }: Pick<FrameProps, "team" | "page" | "onGo">) {
  function go(event: MouseEvent<HTMLAnchorElement>) {
    // A link to a new tab or window is the browser's.
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    if (team) onGo(event.currentTarget.pathname);
  }
  return (
    <nav aria-label="Team settings" className="pages">
      <ol>
        <li>Settings</li>
        <li>Team</li>
        {pages.map((one) => (
          <li key={one.page}>
            <a
              href={team && settingsPath(team.id, one.page)}
              aria-current={one.page === page ? "page" : undefined}
              onClick={go}
            >
              <Icon name={one.icon} />
              {one.words}
            </a>
          </li>
        ))}
      </ol>
    </nav>
  );
}
