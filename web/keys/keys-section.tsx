import { useEffect, useState } from "react";
import type { Key } from "#gen/keyrun/v1/key_pb.ts";
import { failureOf } from "../api/failure.ts";
import { bounds } from "../bounds.ts";
import { FailureNote } from "../controls/failure-note.tsx";
import { useServices } from "../services.tsx";
import { TryIt } from "../try-it/try-it.tsx";
import { EmptyKeys } from "./empty-keys.tsx";
import { activeCounts, visibleKeys } from "./key-pages.ts";
import { isSkeletonShown, KeysLoading } from "./keys-loading.tsx";
import { KeysTable } from "./keys-table.tsx";
import type { useKeyList } from "./use-key-list.ts";

interface KeysSectionProps {
  readonly teamId: string;
  readonly teamName: string;
  readonly list: ReturnType<typeof useKeyList>;
  readonly showRevoked: boolean;
  readonly newKeyIds: ReadonlySet<string>;
  readonly departing: ReadonlyMap<string, Key>;
  onShowRevoked(show: boolean): void;
  onCreate(): void;
  onRevoke(key: Key): void;
}

/** The list of keys, in each of its states, and how to use a key below it. */
export function KeysSection(props: KeysSectionProps) {
  const { teamId, list, showRevoked, departing, onCreate } = props;
  const pages = list.data;
  if (pages === undefined) {
    return list.isError ? <LoadFailure list={list} /> : <Loading />;
  }
  const keys = visibleKeys(pages, showRevoked, departing);
  const { active } = activeCounts(pages);
  const tryIt = <TryIt teamId={teamId} open={keys.every((key) => key.lastUseTime === undefined)} />;
  if (keys.length === 0 && active === 0 && !showRevoked) {
    return (
      <section className="card" aria-label="Keys">
        {list.isError && <RefreshFailure list={list} />}
        <Toolbar {...props} />
        <EmptyKeys onCreate={onCreate}>{tryIt}</EmptyKeys>
      </section>
    );
  }
  return (
    <>
      <section className="card" aria-label="Keys">
        {list.isError && <RefreshFailure list={list} />}
        <Toolbar {...props} />
        <KeysTable {...props} keys={keys} stale={list.isError} />
        <LoadMore list={list} />
      </section>
      <section className="card" aria-label="Try it">
        {tryIt}
      </section>
    </>
  );
}

function Toolbar({ list, showRevoked, onShowRevoked }: KeysSectionProps) {
  const counts = list.data && activeCounts(list.data);
  return (
    <div className="toolbar">
      <p className="muted">{counts && `${counts.active} of ${counts.activeMax} keys`}</p>
      <label className="check">
        <input
          type="checkbox"
          checked={showRevoked}
          onChange={(event) => onShowRevoked(event.currentTarget.checked)}
        />
        Show revoked
      </label>
    </div>
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

function LoadFailure({ list }: List) {
  return (
    <section className="card" aria-label="Keys">
      <FailureNote failure={failureOf(list.error)} action={<Retry list={list} />}>
        Couldn’t load API keys. Nothing was changed.
      </FailureNote>
    </section>
  );
}

function RefreshFailure({ list }: List) {
  const failure = failureOf(list.error);
  // The banner already says so, and what to do.
  if (failure.signedOut) return null;
  return (
    <FailureNote failure={failure} action={<Retry list={list} />}>
      Couldn’t load API keys. Nothing was changed. What you see may be out of date.
    </FailureNote>
  );
}

function Retry({ list }: List) {
  return (
    <button
      type="button"
      className="button button-small"
      aria-disabled={list.isFetching}
      onClick={() => void list.refetch()}
    >
      {list.isFetching ? "Trying…" : "Try again"}
    </button>
  );
}

function LoadMore({ list }: List) {
  if (!list.hasNextPage) return null;
  return (
    <div className="load-more">
      <button
        type="button"
        className="button button-small"
        aria-disabled={list.isFetchingNextPage}
        onClick={() => void list.fetchNextPage()}
      >
        {list.isFetchingNextPage ? "Loading…" : "Load more"}
      </button>
    </div>
  );
}
