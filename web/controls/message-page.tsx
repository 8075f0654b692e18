import type { ReactNode } from "react";

interface MessagePageProps {
  readonly title: string;
  readonly children: ReactNode;
}

/** A page with one message. */
export function MessagePage({ title, children }: MessagePageProps) {
  return (
    <section className="card message-page" aria-labelledby="message-title">
      <title>{`${title} · Keyrun`}</title>
      <h1 id="message-title">{title}</h1>
      {children}
    </section>
  );
}
