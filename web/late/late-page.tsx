import type { ReactNode } from "react";
import { MessagePage } from "../frame/message-page.tsx";
import { type Parts, useParts } from "./load-parts.ts";
import { PartsFailure } from "./parts-failure.tsx";

/** A page that comes late: nothing until it is here, or a page that says that it could not be fetched. */
export function LatePage({ children }: { readonly children: (parts: Parts) => ReactNode }) {
  const parts = useParts();
  if (typeof parts === "object") return children(parts);
  return (
    parts === "failed" && (
      <MessagePage title="Keyrun can’t be reached">
        <PartsFailure />
      </MessagePage>
    )
  );
}
