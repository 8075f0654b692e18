import type { ReactNode } from "react";
import { MessagePage } from "../controls/message-page.tsx";
import { type Parts, useParts } from "./load-parts.ts";
import { PartsFailure } from "./parts-failure.tsx";

/**
 * A page of the lazy parts: nothing until they are loaded, or a page that says that loading failed.
 */
export function LazyPage({ children }: { readonly children: (parts: Parts) => ReactNode }) {
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
