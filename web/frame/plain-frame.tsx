import type { ReactNode } from "react";
import { ProductMark } from "./product-mark.tsx";

/** The frame of the pages for a person who isn't signed in. */
export function PlainFrame({ children }: { children: ReactNode }) {
  return (
    <div className="plain-frame">
      <header>
        <ProductMark />
      </header>
      <main id="main">{children}</main>
    </div>
  );
}
