/** What start prints on standard output: where Keyrun is, how to make a first key, and a ready curl. */
export function startWords(at: {
  readonly publicUrl: string;
  readonly grpcAddress: string;
  readonly demo: boolean;
}): string {
  const team = at.demo ? "demo" : "<team_id>";
  return `Keyrun is ready: ${at.publicUrl} (gRPC ${at.grpcAddress})

Make a key, which is shown this once:
  export KEYRUN_API_KEY=$(npx --no-install keyrun keys create --team ${team})
Run an app with it:
  curl -sS -X POST ${at.publicUrl}/api/apps/echo/run -H "Authorization: Bearer $KEYRUN_API_KEY" -H "Content-Type: application/json" -d '{"text":"hello"}'
`;
}
