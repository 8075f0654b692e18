export const languages = [
  { name: "curl", words: "curl" },
  { name: "javascript", words: "JavaScript" },
  { name: "python", words: "Python" },
] as const;
export type Language = (typeof languages)[number]["name"];

/** What a snippet runs, and with which key. */
export interface SnippetFacts {
  readonly appId: string;
  /** When undefined, the snippet reads $KEYRUN_URL and $KEYRUN_API_KEY from the environment. */
  readonly real?: { readonly url: string; readonly key: string };
}

/** A program that runs an app once and prints the answer, to be pasted as it is. */
export function snippet(language: Language, facts: SnippetFacts): string {
  return programs[language](facts);
}

// Nothing is escaped: an address, an app id or a key never holds a quote, a dollar sign, a backtick
// or a backslash.
const programs: Record<Language, (facts: SnippetFacts) => string> = {
  curl: ({ appId, real }) =>
    `curl -sS -X POST "${real?.url ?? "$KEYRUN_URL"}/api/apps/${appId}/run" \\
  -H "Authorization: Bearer ${real?.key ?? "$KEYRUN_API_KEY"}" \\
  -H "Content-Type: application/json" \\
  -d '{"text":"hello"}'`,

  javascript: ({ appId, real }) =>
    `const response = await fetch(\`${real?.url ?? `\${process.env.KEYRUN_URL}`}/api/apps/${appId}/run\`, {
  method: "POST",
  headers: {
    Authorization: \`Bearer ${real?.key ?? `\${process.env.KEYRUN_API_KEY}`}\`,
    "Content-Type": "application/json",
  },
  body: JSON.stringify({ text: "hello" }),
});
console.log(await response.json());`,

  python: ({ appId, real }) =>
    `import json${real ? "" : ", os"}, urllib.request

request = urllib.request.Request(
    ${real ? `"${real.url}` : 'os.environ["KEYRUN_URL"] + "'}/api/apps/${appId}/run",
    data=json.dumps({"text": "hello"}).encode(),
    headers={
        "Authorization": "Bearer ${real ? `${real.key}"` : '" + os.environ["KEYRUN_API_KEY"]'},
        "Content-Type": "application/json",
    },
)
print(json.load(urllib.request.urlopen(request)))`,
};
