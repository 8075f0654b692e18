import type { ReactNode } from "react";
import type { GetSessionResponse } from "#gen/keyrun/v1/session_service_pb.ts";
import { failureOf } from "../api/failure.ts";
import { teamName } from "../frame/team-words.ts";
import { PreviewOffPage, TeamNotFoundPage } from "../session/absent-pages.tsx";
import { SignedOutBanner } from "../session/signed-out-banner.tsx";
import { UsageCard } from "../usage/usage-card.tsx";
import { absenceOf } from "./absence.ts";
import { CreateKeyDialog } from "./create/create-key-dialog.tsx";
import { activeCounts } from "./key-pages.ts";
import { KeysSection } from "./keys-section.tsx";
import { LiveBar } from "./live-bar.tsx";
import { RevokeKeyDialog } from "./revoke/revoke-key-dialog.tsx";
import { TitleRow } from "./title-row.tsx";
import { useKeysPage } from "./use-keys-page.ts";

interface KeysPageProps {
  readonly teamId: string;
  /** Undefined while it is read. */
  readonly session: GetSessionResponse | undefined;
  /** What to show instead where the session could not be read; false otherwise. */
  readonly unavailable: ReactNode;
}

/** The page of a team's API keys. */
export function KeysPage({ teamId, session, unavailable }: KeysPageProps) {
  const page = useKeysPage(teamId);
  const { dialog, list } = page;
  const absence = absenceOf(teamId, session, list.error === null ? null : failureOf(list.error));
  const email = session?.email ?? "";
  return (
    <>
      <SignedOutBanner />
      {absence === "preview" && <PreviewOffPage email={email} />}
      {absence === "team" && <TeamNotFoundPage teamId={teamId} />}
      {absence === null && (unavailable || <KeysContent page={page} teamId={teamId} session={session} />)}
      {/* Beside the content: a key that is shown once stays, even where access was withdrawn meanwhile. */}
      {dialog?.kind === "create" && (
        <CreateKeyDialog teamId={teamId} writer={page.writer} onClose={page.closeCreate} />
      )}
      {dialog?.kind === "revoke" && (
        <RevokeKeyDialog
          apiKey={dialog.key}
          writer={page.writer}
          email={email}
          revokedElsewhere={dialog.revokedElsewhere}
          onPending={(pending) => {
            page.revokingId.current = pending ? dialog.key.id : null;
          }}
          onClose={(outcome) => page.closeRevoke(dialog, outcome)}
        />
      )}
    </>
  );
}

interface KeysContentProps extends Omit<KeysPageProps, "unavailable"> {
  readonly page: ReturnType<typeof useKeysPage>;
}

function KeysContent({ page, teamId, session }: KeysContentProps) {
  const team = session?.teams.find((one) => one.id === teamId);
  const name = team && teamName(team);
  const { active, activeMax } = page.list.data ? activeCounts(page.list.data) : { active: 0, activeMax: 1 };
  const full = active >= activeMax;
  const create = () => {
    if (!full) page.setDialog({ kind: "create" });
  };
  return (
    <>
      <title>{name === undefined ? "API keys · Keyrun" : `API keys · ${name} · Keyrun`}</title>
      <TitleRow
        teamName={name}
        full={full ? activeMax : null}
        headingRef={page.heading}
        createRef={page.createButton}
        onCreate={create}
      />
      <UsageCard teamId={teamId} team={team} />
      <KeysSection
        teamId={teamId}
        teamName={name ?? teamId}
        list={page.list}
        showRevoked={page.showRevoked}
        newKeyIds={page.newKeyIds}
        departing={page.departing}
        onShowRevoked={page.setShowRevoked}
        onCreate={create}
        onRevoke={page.openRevoke}
      />
      <footer className="page-footer">
        <a href="/openapi.json">OpenAPI</a>
        <span>Revocation is immediate and permanent</span>
      </footer>
      <LiveBar paused={page.paused} />
    </>
  );
}
