/** What these buttons need of a read: a part of what React Query returns. */
export interface Read {
  readonly isFetching: boolean;
  refetch(): Promise<unknown>;
}

interface PagedRead {
  readonly hasNextPage: boolean;
  readonly isFetchingNextPage: boolean;
  fetchNextPage(): Promise<unknown>;
}

/** Reads again what could not be read. */
export function Retry({ read }: { read: Read }) {
  return (
    <button
      type="button"
      className="button button-small"
      aria-disabled={read.isFetching}
      onClick={() => void read.refetch()}
    >
      {read.isFetching ? "Trying…" : "Try again"}
    </button>
  );
}

/** Reads the next page of a list. Shows nothing where there is none. */
export function LoadMore({ list }: { list: PagedRead }) {
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
