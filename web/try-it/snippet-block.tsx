import { type ReactNode, useState } from "react";
import { CopyButton } from "../controls/copy-button.tsx";
import { Tabs } from "../controls/tabs.tsx";
import { guardSnippet, type Language, languages, type SnippetFacts, snippet } from "./snippet.ts";

interface SnippetBlockProps {
  readonly facts: SnippetFacts;
  /** Whether the app is a guard: then there is one program, which asks it. */
  readonly isGuard: boolean;
  /** Shown beside the Copy button. */
  readonly aside?: ReactNode;
}

/** The same request in three languages, with a button that copies it. */
export function SnippetBlock({ facts, isGuard, aside }: SnippetBlockProps) {
  const [chosen, setLanguage] = useState<Language>("curl");
  const language = isGuard ? "curl" : chosen;
  const text = isGuard ? guardSnippet(facts.appId) : snippet(language, facts);
  return (
    <Tabs
      label="Language"
      tabs={languages.filter(({ name }) => !isGuard || name === language)}
      chosen={language}
      onChoose={setLanguage}
      aside={
        <>
          {aside}
          <CopyButton key={text} text={text} what="Snippet" />
        </>
      }
    >
      <pre>
        <code>{text}</code>
      </pre>
    </Tabs>
  );
}
