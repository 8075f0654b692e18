import type { Entry } from "../metrics/metrics.ts";
import type { Refusal } from "../refusal/refusal.ts";
import type { LoggedRequest, Outcomes } from "./outcomes.ts";

/**
 * The same outcomes, written into the notes of their requests, too. The first outcome of a request
 * holds. `onUnread` is called with the refusal of bytes that never became a request: they have no
 * notes.
 */
export function noteOutcomes(
  outcomes: Outcomes,
  onUnread: (refusal: Refusal, entry: Entry, asked: LoggedRequest) => void,
): Outcomes {
  return {
    succeeded(entry, request) {
      note(request, entry, "OK");
      outcomes.succeeded(entry, request);
    },
    refused(refusal, entry, asked) {
      if (asked.notes === undefined) onUnread(refusal, entry, asked);
      else note(asked, entry, refusal);
      outcomes.refused(refusal, entry, asked);
    },
  };
}

function note(request: LoggedRequest, entry: Entry, outcome: "OK" | Refusal): void {
  const { notes } = request;
  if (notes === undefined || notes.outcome !== undefined) return;
  notes.entry = entry;
  notes.outcome = outcome;
  notes.request ??= request;
}
