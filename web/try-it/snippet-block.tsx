import { type ReactNode, useState } from "react";
import { CopyButton } from "../controls/copy-button.tsx";
import { Tabs } from "../controls/tabs.tsx";
import { type Language, languages, type SnippetFacts, snippet } from "./snippet.ts";

interface SnippetBlockProps {
  readonly facts: SnippetFacts;
  /** Shown beside the Copy button. */
  readonly aside?: ReactNode;
}

/** The same request in three languages, with a button that copies it. */
export function SnippetBlock({ facts, aside }: SnippetBlockProps) {
  const [language, setLanguage] = useState<Language>("curl");
  const text = snippet(language, facts);
  return (
    <Tabs
      label="Language"
      tabs={languages}
      chosen={language}
      onChoose={setLanguage}
      aside={
        <>
          {aside}
          <CopyButton key={`${language} ${facts.appId} ${facts.call}`} text={text} what="Snippet" />
        </>
      }
    >
      <pre>
        <code>{text}</code>
      </pre>
    </Tabs>
  );
}
