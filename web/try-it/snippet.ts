export const languages = [
  { name: "curl", words: "curl" },
  { name: "javascript", words: "JavaScript" },
  { name: "python", words: "Python" },
] as const;
export type Language = (typeof languages)[number]["name"];

/** How an app is run: for its whole text, or for its text as it is written. */
export type Call = "run" | "stream";

/** What a snippet runs. */
export interface SnippetFacts {
  readonly appId: string;
  readonly call: Call;
  /** JSON of an object that is sent beside the text, as it was written; empty: none is. */
  readonly json?: string;
}

/** The text that a run sends. That of a stream has words, which come one by one. */
export const sentTexts: Record<Call, string> = { run: "hello", stream: "hello, word by word" };

/**
 * A program that runs an app once and prints the answer, to be pasted as it is. It reads the
 * address and the key from the environment: a key in a program ends up in histories and
 * repositories.
 */
export function snippet(language: Language, facts: SnippetFacts): string {
  return programs[language](facts);
}

/** What asks the guard of an app, as the proxy of that service does for each request. */
export function guardSnippet(appId: string): string {
  return `curl -sS -i "$KEYRUN_URL/api/apps/${appId}/guard" \\
  -H "Authorization: Bearer $KEYRUN_API_KEY"`;
}

// The id of an app is not escaped: it holds no quote, dollar sign, backtick or backslash.
const programs: Record<Language, (facts: SnippetFacts) => string> = {
  curl: ({ appId, call, json }) =>
    `curl ${call === "stream" ? "-N " : ""}-sS -X POST "$KEYRUN_URL/api/apps/${appId}/${call}" \\
  -H "Authorization: Bearer $KEYRUN_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"text":"${sentTexts[call]}"${json ? `,"input":${json.replaceAll("'", "'\\''")}` : ""}}'`,

  javascript: ({ appId, call, json }) =>
    `const response = await fetch(\`\${process.env.KEYRUN_URL}/api/apps/${appId}/${call}\`, {
  method: "POST",
  headers: {
    Authorization: \`Bearer \${process.env.KEYRUN_API_KEY}\`,
    "Content-Type": "application/json",${call === "stream" ? '\n    Accept: "application/x-ndjson",' : ""}
  },
  body: JSON.stringify({ text: "${sentTexts[call]}"${json ? `, input: JSON.parse(${JSON.stringify(json)})` : ""} }),
});
${readers.javascript[call]}`,

  python: ({ appId, call, json }) =>
    `import json, os, urllib.request

request = urllib.request.Request(
    os.environ["KEYRUN_URL"] + "/api/apps/${appId}/${call}",
    data=json.dumps({"text": "${sentTexts[call]}"${json ? `, "input": json.loads(${JSON.stringify(json)})` : ""}}).encode(),
    headers={
        "Authorization": "Bearer " + os.environ["KEYRUN_API_KEY"],
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
