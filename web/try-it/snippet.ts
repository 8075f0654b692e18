export const languages = [
  { name: "curl", words: "curl" },
  { name: "javascript", words: "JavaScript" },
  { name: "python", words: "Python" },
] as const;
export type Language = (typeof languages)[number]["name"];

/** How an app is run: for its whole text, or for its text as it is written. */
export type Call = "run" | "stream";

/** What a snippet runs, and with which key. */
export interface SnippetFacts {
  readonly appId: string;
  readonly call: Call;
  /** When undefined, the snippet reads $KEYRUN_URL and $KEYRUN_API_KEY from the environment. */
  readonly real?: { readonly url: string; readonly key: string };
}

/** The text that a run sends. That of a stream has words, which come one by one. */
export const sentTexts: Record<Call, string> = { run: "hello", stream: "hello, word by word" };

/** A program that runs an app once and prints the answer, to be pasted as it is. */
export function snippet(language: Language, facts: SnippetFacts): string {
  return programs[language](facts);
}

// Nothing is escaped: an address, an app id or a key never holds a quote, a dollar sign, a backtick
// or a backslash.
const programs: Record<Language, (facts: SnippetFacts) => string> = {
  curl: ({ appId, call, real }) =>
    `curl ${call === "stream" ? "-N " : ""}-sS -X POST "${real?.url ?? "$KEYRUN_URL"}/api/apps/${appId}/${call}" \\
  -H "Authorization: Bearer ${real?.key ?? "$KEYRUN_API_KEY"}" \\
  -H "Content-Type: application/json" \\
  -d '{"text":"${sentTexts[call]}"}'`,

  javascript: ({ appId, call, real }) =>
    `const response = await fetch(\`${real?.url ?? `\${process.env.KEYRUN_URL}`}/api/apps/${appId}/${call}\`, {
  method: "POST",
  headers: {
    Authorization: \`Bearer ${real?.key ?? `\${process.env.KEYRUN_API_KEY}`}\`,
    "Content-Type": "application/json",${call === "stream" ? '\n    Accept: "application/x-ndjson",' : ""}
  },
  body: JSON.stringify({ text: "${sentTexts[call]}" }),
});
${readers.javascript[call]}`,

  python: ({ appId, call, real }) =>
    `import json${real ? "" : ", os"}, urllib.request

request = urllib.request.Request(
    ${real ? `"${real.url}` : 'os.environ["KEYRUN_URL"] + "'}/api/apps/${appId}/${call}",
    data=json.dumps({"text": "${sentTexts[call]}"}).encode(),
    headers={
        "Authorization": "Bearer ${real ? `${real.key}"` : '" + os.environ["KEYRUN_API_KEY"]'},
        "Content-Type": "application/json",${call === "stream" ? '\n        "Accept": "application/x-ndjson",' : ""}
    },
)
${readers.python[call]}`,
};

/** How the programs read the answer. The last line of a stream says whether it is whole. */
const readers: Record<Exclude<Language, "curl">, Record<Call, string>> = {
  javascript: {
    run: "console.log(await response.json());",
    stream: `if (!response.ok) throw new Error(await response.text());
let held = "";
let last = {};
for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (held + chunk).split("\\n");
  held = lines.pop();
  for (const line of lines) {
    last = JSON.parse(line);
    process.stdout.write(last.delta?.text ?? "");
  }
}
if (!last.end) throw new Error(last.error?.message ?? "The stream broke off.");`,
  },
  python: {
    run: "print(json.load(urllib.request.urlopen(request)))",
    stream: `last = {}
with urllib.request.urlopen(request) as response:
    for line in response:
        last = json.loads(line)
        print(last.get("delta", {}).get("text", ""), end="", flush=True)
if "end" not in last:
    raise SystemExit(last.get("error", {}).get("message", "The stream broke off."))`,
  },
};
