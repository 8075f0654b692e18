import { useEffect, useState } from "react";
import { failureOf } from "../api/failure.ts";
import type { Key } from "../api/messages.ts";
import { bounds } from "../bounds.ts";
import { FailureNote } from "../controls/failure-note.tsx";
import { LoadMore, Retry } from "../controls/list-buttons.tsx";
import { Lazy } from "../lazy/lazy.tsx";
import { useServices } from "../services.tsx";
import { TryIt } from "../try-it/try-it.tsx";
import type { KeyLines } from "../usage/lines/usage-lines.tsx";
import { EmptyKeys } from "./empty-keys.tsx";
import { keyCounts, keysOf } from "./key-pages.ts";
import { isNarrowed, type KeyView } from "./key-view.ts";
import { isSkeletonShown, KeysLoading } from "./keys-loading.tsx";
import { KeysTable } from "./keys-table.tsx";
import { isSearchable, KeysToolbar } from "./keys-toolbar.tsx";
import type { useKeyList } from "./use-key-list.ts";

interface KeysSectionProps {
  readonly teamId: string;
  readonly teamName: string;
  readonly list: ReturnType<typeof useKeyList>;
  readonly rows: readonly Key[];
  readonly view: KeyView;
  readonly newKeyIds: ReadonlySet<string>;
  readonly lines: KeyLines;
  readonly departing: ReadonlyMap<string, Key>;
  onView(change: Partial<KeyView>): void;
  onCreate(): void;
  onOpen(key: Key): void;
  onRevoke(key: Key): void;
}

/** The list of keys, in each of its states, and how to use a key below it. */
export function KeysSection(props: KeysSectionProps) {
  const { teamId, list, rows, view, onCreate } = props;
  const pages = list.data;
  const narrowed = isNarrowed(view);
  if (pages === undefined) {
    return list.isError ? <LoadFailure {...{ list, narrowed }} onView={props.onView} /> : <Loading />;
  }
  const { active } = keyCounts(pages);
  const unused = keysOf(pages).every((key) => key.lastUseTime === undefined);
  const tryIt = <TryIt teamId={teamId} open={!narrowed && unused} />;
  const toolbar = <KeysToolbar {...{ list, view }} found={rows.length} onView={props.onView} />;
  if (rows.length === 0 && active === 0 && !narrowed) {
    return (
      <section className="card" aria-label="Keys">
        {list.isError && <RefreshFailure list={list} />}
        {toolbar}
        <EmptyKeys onCreate={onCreate}>{tryIt}</EmptyKeys>
      </section>
    );
  }
  return (
    <>
      <section className="card" aria-label="Keys">
        {list.isError && <RefreshFailure list={list} />}
        {toolbar}
        {rows.length === 0 && narrowed ? (
          <Lazy>{({ NoMatch }) => <NoMatch {...{ list, view }} onView={props.onView} />}</Lazy>
        ) : (
          <Rows {...props} />
        )}
        <LoadMore list={list} />
      </section>
      <section className="card" aria-label="Try it">
        {tryIt}
      </section>
      {!unused && (
        <section className="card usage-history" aria-label="Requests">
          <Lazy>{({ UsageHistory }) => <UsageHistory teamId={teamId} />}</Lazy>
        </section>
      )}
    </>
  );
}

function Rows(props: KeysSectionProps) {
  const { list, view, onView } = props;
  // The page can only sort what it has loaded.
  const sortable = list.data && !list.hasNextPage && isSearchable(keyCounts(list.data), view);
  return (
    <KeysTable
      {...props}
      stale={list.isError}
      sort={sortable ? view.sort : null}
      onSort={(sort) => onView({ sort })}
    />
  );
}

function Loading() {
  const { status } = useServices();
  const [atOnce] = useState(isSkeletonShown);
  useEffect(() => {
    const timer = setTimeout(() => status.say("Loading API keys"), bounds.skeletonDelayMs);
    return () => clearTimeout(timer);
  }, [status]);
  return <KeysLoading atOnce={atOnce} />;
}

type List = { readonly list: ReturnType<typeof useKeyList> };

type LoadFailureProps = List & { readonly narrowed: boolean } & Pick<KeysSectionProps, "onView">;

function LoadFailure({ list, narrowed, onView }: LoadFailureProps) {
  return (
    <section className="card" aria-label="Keys">
      <FailureNote failure={failureOf(list.error)} action={<Retry read={list} />}>
        Couldn’t load API keys. Nothing was changed.
        {narrowed && (
          <>
            {" "}
            <button
              type="button"
              className="button button-small"
              onClick={() => onView({ query: "", unusedOnly: false })}
            >
              Show all keys
            </button>
          </>
        )}
      </FailureNote>
    </section>
  );
}

function RefreshFailure({ list }: List) {
  const failure = failureOf(list.error);
  // The banner already says so, and what to do.
  if (failure.signedOut) return null;
  return (
    <FailureNote failure={failure} action={<Retry read={list} />}>
      Couldn’t load API keys. Nothing was changed. What you see may be out of date.
    </FailureNote>
  );
}
