import { type ReactNode, useEffect } from "react";
import { failureOf } from "../api/failure.ts";
import type { GetSessionResponse } from "../api/messages.ts";
import { useCell } from "../cell.ts";
import { teamName } from "../frame/team-words.ts";
import { Lazy } from "../lazy/lazy.tsx";
import { LazyDialog } from "../lazy/lazy-dialog.tsx";
import { LazyPage } from "../lazy/lazy-page.tsx";
import { loadPartsWhenIdle, useParts } from "../lazy/load-parts.ts";
import { useServices } from "../services.tsx";
import { WhileSignedIn } from "../session/while-signed-in.tsx";
import { UsageCard } from "../usage/usage-card.tsx";
import { absenceOf } from "./absence.ts";
import { keyCounts } from "./key-pages.ts";
import { KeysSection } from "./keys-section.tsx";
import { TitleRow } from "./title-row.tsx";
import { type KeysPageState, useKeysPage } from "./use-keys-page.ts";

interface KeysPageProps {
  readonly teamId: string;
  /** Undefined while it is loading. */
  readonly session: GetSessionResponse | undefined;
  /** What to show instead when the session could not be read; false otherwise. */
  readonly unavailable: ReactNode;
}

/** The page of a team's API keys. */
export function KeysPage({ teamId, session, unavailable }: KeysPageProps) {
  const page = useKeysPage(teamId);
  const { list } = page;
  const absence = absenceOf(teamId, session, list.error === null ? null : failureOf(list.error));
  const email = session?.email ?? "";
  useEffect(() => {
    // The first view is complete. Load the rest now, so that a dialog opens at once.
    if (list.isFetched) loadPartsWhenIdle();
  }, [list.isFetched]);
  return (
    <>
      <WhileSignedIn>
        {absence === "preview" && (
          <LazyPage>{({ PreviewOffPage }) => <PreviewOffPage email={email} />}</LazyPage>
        )}
        {absence === "team" && (
          <LazyPage>{({ TeamNotFoundPage }) => <TeamNotFoundPage teamId={teamId} email={email} />}</LazyPage>
        )}
        {absence === null && (unavailable || <KeysContent page={page} teamId={teamId} session={session} />)}
      </WhileSignedIn>
      {list.isFetched && <Live page={page} teamId={teamId} />}
      {page.menu && <Lazy>{({ KeyMenu }) => page.menu && <KeyMenu page={page} apiKey={page.menu} />}</Lazy>}
      {/* Outside the content: a new key in a dialog stays, even if the person loses access
          meanwhile. */}
      <OpenDialog page={page} teamId={teamId} email={email} />
    </>
  );
}

type PageProps = { readonly page: KeysPageState };

/** The open dialog. */
function OpenDialog(props: PageProps & { readonly teamId: string; readonly email: string }) {
  const { dialog, close } = props.page;
  const ended = useCell(useServices().sessionEnded);
  // The details are hidden as the page is. The others may hold what must not be lost.
  if (dialog === null || (ended && dialog.kind === "details")) return null;
  return (
    <LazyDialog title={dialogTitles[dialog.kind]} onCloseRequest={() => close(dialog.opener)}>
      {({ KeysDialogs }) => <KeysDialogs {...props} dialog={dialog} />}
    </LazyDialog>
  );
}

/** The headings of the dialogs until they are loaded. */
const dialogTitles = {
  create: "Create new secret key",
  details: "Key details",
  edit: "Edit key",
  rotate: "Rotate key",
  revoke: "Revoke key",
};

/**
 * What changes the list by itself, and draws the lines of its keys. Until it is loaded, the list
 * shows what was read.
 */
function Live({ page, teamId }: PageProps & { readonly teamId: string }) {
  const parts = useParts();
  if (typeof parts !== "object") return null;
  const refresh = () => void page.writer.refresh();
  return (
    <>
      <parts.LiveKeys
        {...{ teamId, onOpened: refresh, onRefused: refresh, onChanged: page.onChanged }}
        pages={page.list.data}
        onCreated={page.writer.created}
        onUsed={page.writer.used}
        onPaused={page.setPaused}
      />
      <parts.UsageLines teamId={teamId} pages={page.list.data?.pages} onLines={page.setLines} />
    </>
  );
}

type KeysContentProps = PageProps & Omit<KeysPageProps, "unavailable">;

function KeysContent({ page, teamId, session }: KeysContentProps) {
  const team = session?.teams?.find((one) => one.id === teamId);
  const name = team && teamName(team);
  const { active, activeMax } = page.list.data ? keyCounts(page.list.data) : { active: 0, activeMax: 1 };
  const full = active >= activeMax;
  const create = () => {
    if (!full) page.setDialog({ kind: "create", opener: "new-key" });
  };
  return (
    <>
      <title>{name === undefined ? "API keys · Keyrun" : `API keys · ${name} · Keyrun`}</title>
      <TitleRow teamName={name} full={full ? activeMax : null} headingRef={page.heading} onCreate={create} />
      <UsageCard teamId={teamId} team={team} />
      <KeysSection
        teamId={teamId}
        teamName={name ?? teamId}
        list={page.list}
        rows={page.rows}
        view={page.view}
        newKeyIds={page.newKeyIds}
        lines={page.lines}
        departing={page.departing}
        onView={page.changeView}
        onCreate={create}
        onOpen={page.openDetails}
        onRevoke={page.openRevoke}
        onMenu={page.setMenu}
      />
      {/* Not before the list: it would move by the height of the rows. */}
      {page.list.isFetched && (
        <footer className="page-footer">
          <a href="/docs/api">API reference</a>
          <a href="/docs/errors">List of errors</a>
          <a href="/openapi.json">OpenAPI</a>
          <span>Revocation is immediate and permanent</span>
        </footer>
      )}
      <LiveBar paused={page.paused} />
    </>
  );
}

/** Says that changes by others may show late. It covers the foot of the page, so nothing moves. */
function LiveBar({ paused }: { paused: boolean }) {
  return <div role="status">{paused && <p className="live-bar">Live updates paused, retrying</p>}</div>;
}
