import { useEffect, useRef, useState } from "react";
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
import { isNarrowed, isSortable, type KeyView, sortOf } from "./key-view.ts";
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
  onMenu(key: Key): void;
}

/** The list of keys, in each of its states, and how to use a key below it. */
export function KeysSection(props: KeysSectionProps) {
  const { teamId, list, rows, view, onCreate } = props;
  const pages = list.data;
  const narrowed = isNarrowed(view);
  /** Whether a key was used, of those that any view has shown. */
  const used = useRef(false);
  if (pages === undefined) {
    return list.isError ? <LoadFailure {...{ list, narrowed }} onView={props.onView} /> : <Loading />;
  }
  const { active } = keyCounts(pages);
  used.current ||= keysOf(pages).some((key) => key.lastUseTime !== undefined);
  const tryIt = <TryIt teamId={teamId} open={!used.current && !narrowed && !view.past} />;
  const toolbar = <KeysToolbar {...{ list, view }} found={rows.length} onView={props.onView} />;
  if (rows.length === 0 && active === 0 && !narrowed && !view.past) {
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
        {rows.length === 0 && (narrowed || view.past) ? (
          <Lazy>{({ NoMatch }) => <NoMatch {...{ list, view }} onView={props.onView} />}</Lazy>
        ) : (
          <Rows {...props} />
        )}
        <LoadMore list={list} />
      </section>
      <section className="card" aria-label="Try it">
        {tryIt}
      </section>
      {used.current && (
        <section className="card usage-history" aria-label="Requests">
          <Lazy>{({ UsageHistory }) => <UsageHistory teamId={teamId} />}</Lazy>
        </section>
      )}
    </>
  );
}

function Rows(props: KeysSectionProps) {
  const { list, view, onView } = props;
  const counts = list.data && keyCounts(list.data);
  const sortable = counts && isSortable(view, counts, list.hasNextPage) && isSearchable(counts, view);
  return (
    <KeysTable
      {...props}
      stale={list.isError}
      past={view.past}
      sort={sortable ? sortOf(view) : null}
      onSort={(sort) => onView(view.past ? { pastSort: sort } : { sort })}
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
  return (
    <FailureNote failure={failureOf(list.error)} action={<Retry read={list} />}>
      Couldn’t load API keys. Nothing was changed. What you see may be out of date.
    </FailureNote>
  );
}
