import type { Team } from "../api/messages.ts";
import { Icon } from "../controls/icon.tsx";
import { type SettingsPage, settingsPath } from "../navigation/routes.ts";
import { useServices } from "../services.tsx";
import { planName, teamName } from "./team-words.ts";

interface TeamSwitcherProps {
  readonly teams: readonly Team[];
  /** The current team; undefined when it is none of `teams`. */
  readonly team: Team | undefined;
  /** The page that stays when the team changes. */
  readonly page: SettingsPage | undefined;
}

/** Shows the current team. A person with several teams can change to another one here. */
export function TeamSwitcher({ teams, team, page }: TeamSwitcherProps) {
  const { location } = useServices();
  const only = teams.length === 1 && team !== undefined;
  if (only) {
    return (
      <p className="team-only">
        <bdi>{teamName(team)}</bdi>
        <span className="plan">{planName(team)}</span>
      </p>
    );
  }
  return (
    <div className="select team-select">
      <select
        aria-label="Team"
        value={team?.id ?? ""}
        onChange={(event) => location.go(settingsPath(event.currentTarget.value, page))}
      >
        {team === undefined && <option value="">Choose a team</option>}
        {teams.map((one) => (
          <option key={one.id} value={one.id}>
            {`${teamName(one)} · ${planName(one)}`}
          </option>
        ))}
      </select>
      <Icon name="sort" />
    </div>
  );
}
