const lineCharactersMax = 4_096;

/** The first line of a stream, trimmed; what is over `lineCharactersMax` is not read. Empty where there is none. */
export async function readFirstLine(input: AsyncIterable<Uint8Array | string>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of input) {
    text += typeof chunk === "string" ? chunk : decoder.decode(chunk, { stream: true });
    if (text.includes("\n") || text.length > lineCharactersMax) break;
  }
  return (text.split("\n")[0] ?? "").trim().slice(0, lineCharactersMax);
}
