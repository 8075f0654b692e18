import { type ReactNode, useState } from "react";
import { failureOf } from "../api/failure.ts";
import type { GetSessionResponse } from "../api/messages.ts";
import { teamName } from "../frame/team-words.ts";
import { absenceOf } from "../keys/absence.ts";
import { PreviewOffPage, TeamNotFoundPage } from "../session/absent-pages.tsx";
import { WhileSignedIn } from "../session/while-signed-in.tsx";
import { ActivitySection } from "./activity-section.tsx";
import { type ActivityView, everything, useActivity } from "./use-activity.ts";

interface ActivityPageProps {
  readonly teamId: string;
  /** Undefined while it is loading. */
  readonly session: GetSessionResponse | undefined;
  /** What to show instead when the session could not be read; false otherwise. */
  readonly unavailable: ReactNode;
}

/** The page that tells who changed what in a team. */
export function ActivityPage({ teamId, session, unavailable }: ActivityPageProps) {
  const [view, setView] = useState<ActivityView>(everything);
  const activity = useActivity(teamId, view);
  const failure = activity.error === null ? null : failureOf(activity.error);
  const absence = absenceOf(teamId, session, failure);
  const team = session?.teams?.find((one) => one.id === teamId);
  const name = team && teamName(team);
  if (absence === "preview") return <PreviewOffPage email={session?.email ?? ""} />;
  if (absence === "team") return <TeamNotFoundPage teamId={teamId} email={session?.email ?? ""} />;
  return (
    <WhileSignedIn>
      {unavailable || (
        <>
          <title>{name === undefined ? "Activity · Keyrun" : `Activity · ${name} · Keyrun`}</title>
          <div className="title-row">
            <div>
              <h1 tabIndex={-1}>Activity</h1>
              <p className="muted">
                Who changed the team’s keys, members and plan, and what was refused. No one can change or
                remove an entry here.
              </p>
            </div>
          </div>
          <ActivitySection
            {...{ teamId, activity, view }}
            teamName={name ?? teamId}
            onView={(change) => setView((before) => ({ ...before, ...change }))}
          />
        </>
      )}
    </WhileSignedIn>
  );
}
